"""Tests of `tidegate/show`."""
