"""Spark's StructType of an Arrow schema: derived, so that columns are defined in one place only."""

import pyarrow as pa
from pyspark.sql import types as spark

_SIMPLE: dict[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
}


def data_type(arrow: pa.DataType) -> spark.DataType:
    """Spark's type; raises TypeError for a type that the tables do not use."""
    if pa.types.is_list(arrow):
        return spark.ArrayType(data_type(arrow.value_type), containsNull=arrow.value_field.nullable)
    if pa.types.is_struct(arrow):
        return spark.StructType([struct_field(arrow.field(n)) for n in range(arrow.num_fields)])
    found = _SIMPLE.get(arrow)
    if found is None:
        raise TypeError(f"no Spark type for Arrow's {arrow}: add it here, with a test that it survives a round trip")
    return found


def struct_field(field: pa.Field) -> spark.StructField:
    """Name, type, nullability and the comment."""
    comment = (field.metadata or {}).get(b"comment", b"").decode()
    return spark.StructField(
        field.name, data_type(field.type), field.nullable, {"comment": comment} if comment else None
    )


def struct_type(schema: pa.Schema) -> spark.StructType:
    """The Spark schema of a table."""
    return spark.StructType([struct_field(field) for field in schema])
