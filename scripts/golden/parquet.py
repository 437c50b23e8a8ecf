"""Small Parquet files as pyarrow writes them, for the reader's tests: 100 rows in row groups of 16.

    python parquet.py OUT_DIR        (pip install pyarrow)

id (i64: 0, 1, ...), text ("row 0", ...; every 10th is null), score (f64: id / 4), tokens (a list of id % 5 numbers: id, id + 1, ...)

endless.parquet is not written here: it is a mutation of zstd.parquet that test/slow/data.test.ts found.
"""
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

out = Path(sys.argv[1])
n = 100
table = pa.table({
    "id": pa.array(range(n), pa.int64()),
    "text": pa.array([None if i % 10 == 9 else f"row {i}" for i in range(n)]),
    "score": pa.array([i / 4 for i in range(n)], pa.float64()),
    "tokens": pa.array([[i + j for j in range(i % 5)] for i in range(n)], pa.list_(pa.int32())),
})
for codec in ["none", "snappy", "gzip", "zstd", "brotli"]:
    pq.write_table(table, out / f"{codec}.parquet", row_group_size=16, compression=codec)
pq.write_table(table.slice(0, 0), out / "empty.parquet")
