"""What is asked of few rows that this process has, answered without the server.

A plan of one node costs the server two milliseconds, whatever its rows, and each expression a third of one more; Arrow
needs a few microseconds for it. Only what is here as it is in Spark, whatever its arguments, is answered: names, casts
that lose nothing, comparisons of equal types, and the like (`functions.py`). Everything else is declined: the server is
asked, for the smallest plan that is left. `test_answers.py` holds the answers to those of the server.
"""
