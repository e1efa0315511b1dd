"""Charts as data, drawn as SVG for pages or with matplotlib: panels with axes, bars and steps."""
