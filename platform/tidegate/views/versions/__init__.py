"""New versions of a view (R4, E5): computed beside the current one, and swapped in."""
