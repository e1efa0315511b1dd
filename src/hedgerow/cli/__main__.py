"""``python -m hedgerow.cli``: the command line without its entry point."""

from hedgerow.cli.main import main

if __name__ == "__main__":
    main()
