"""What the suite `many` is made of."""
