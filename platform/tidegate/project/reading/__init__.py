"""YAML as a project has it: strict, with places for errors, variables, and values with units."""
