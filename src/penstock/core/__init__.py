"""The foundation of all layers: types, entries, errors, limits, the clock and record batches."""
