"""What measures speed: ratios within one run, printed as a table and written as JSON."""
