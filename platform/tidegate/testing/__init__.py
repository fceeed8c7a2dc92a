"""`tidegate test`: sqllogictest files, each on a fresh temporary project."""
