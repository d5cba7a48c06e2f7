"""A session as `penstock.spark.session` makes it."""

from pyspark.sql import SparkSession

from penstock.spark import session


def test_the_session_has_its_settings_and_workers_run_this_python(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    total = spark.range(10).selectExpr("sum(id)").first()
    assert total is not None
    assert total[0] == 45


def test_a_second_call_returns_the_session_that_there_is(spark: SparkSession) -> None:
    again = session("another", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    assert again.sparkContext is spark.sparkContext
