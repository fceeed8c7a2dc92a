"""Names, times and watermarks in expressions and relations."""
