"""Plain numpy functions: numbers from numbers. Knows no labels, no xarray, no dask."""
