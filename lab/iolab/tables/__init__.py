"""All stored runs as tables: a view for each type of record, and SQL over them.

stored  what a run's folder holds, read when it is needed    views  the columns of each view and its rows
settings  the columns that hold the settings of a trial      database  the views in DuckDB, for queries and Parquet
"""
