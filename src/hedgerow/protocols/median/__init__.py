"""DiPriMe: forests of private medians."""
