"""WHERE of plain windows, and of `tidegate show`, over Arrow: what Spark's SQL says of the same rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.watermark import RowCondition, Value

_OPERATORS: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "is null": pc.is_null,
}


def fulfilled(condition: RowCondition | Value, batch: pa.RecordBatch) -> pa.Array:
    """Which rows WHERE lets through: booleans, none of them NULL."""
    found = _value(condition, batch)
    if isinstance(found, pa.Scalar):
        found = pa.repeat(found, batch.num_rows)
    return pc.fill_null(found, False)


def _value(operand: Any, batch: pa.RecordBatch) -> Any:
    """An array, or a scalar for a constant."""
    if isinstance(operand, Value):
        column = batch.column(operand.name)
        if pa.types.is_floating(column.type):
            return column.cast(pa.float64())
        return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
    if not isinstance(operand, RowCondition):
        # A bool is an int to Python.
        return pa.scalar(operand, pa.int64()) if type(operand) is int else pa.scalar(operand)
    if operand.operator == "in":
        value, *constants = operand.operands
        return _in(_value(value, batch), constants)
    values = [_value(one, batch) for one in operand.operands]
    if operand.operator == "%":
        return _rest(values[0], values[1].as_py())
    found = _OPERATORS[operand.operator](*values)
    return pc.or_(found, _not_a_number_above(operand.operator, *values)) if _is_float(values) else found


def _is_float(values: list[Any]) -> bool:
    return len(values) == 2 and all(pa.types.is_floating(value.type) for value in values)


def _not_a_number_above(operator: str, left: Any, right: Any) -> Any:
    """Where a comparison of a column of floating-point numbers with a constant holds for NaN: Spark has it above all
    others, and Arrow neither above nor below."""
    column, above = (left, (">", ">=")) if isinstance(right, pa.Scalar) else (right, ("<", "<="))
    return pc.is_nan(column) if operator in above else pa.scalar(False)


def _in(values: Any, constants: list[Any]) -> Any:
    """NULL for NULL, as SQL has it."""
    if not all(isinstance(one, int | str) for one in constants):
        # They are not of the type of the values, but can be compared with it.
        return reduce(pc.or_kleene, (pc.equal(values, pa.scalar(one)) for one in constants))
    found = pc.is_in(values, value_set=pa.array(constants, values.type))
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))


def _rest(values: Any, divisor: int) -> Any:
    """What is left of a division by a number above 0; it has the sign of the value."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(int(np.fmod(values.as_py(), divisor)), pa.int64())
    known = np.asarray(values.fill_null(0))
    return pa.array(np.fmod(known, divisor), pa.int64(), mask=np.asarray(values.is_null()))
