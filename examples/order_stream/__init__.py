"""An order stream from the first message to the proof: brokers, workers, a pipeline on Spark."""
