"""Other accounts of the machine reach the port of a driver, and have no business with it."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


def ask(spark: SparkSession, *, authenticate: bool) -> str:
    """Look up the driver's endpoint of heartbeats, as an executor does. Who authenticates here has the secret: it is
    in the credentials of this process's user.
    """
    context: Any = spark.sparkContext
    jvm = context._jvm
    settings = jvm.org.apache.spark.SparkConf(False)
    settings.set("spark.authenticate", str(authenticate).lower()).set("spark.rpc.lookupTimeout", "30s")
    file_entry = getattr(getattr(jvm.org.apache.spark.internal.config, "package$"), "MODULE$").AUTH_SECRET_FILE()
    security = jvm.org.apache.spark.SecurityManager(settings, jvm.scala.Option.empty(), file_entry)
    client = jvm.org.apache.spark.rpc.RpcEnv.create("client", "127.0.0.1", 0, settings, security, True)
    try:
        driver = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", int(context.getConf().get("spark.driver.port")))
        return str(client.setupEndpointRef(driver, "HeartbeatReceiver").toString())
    finally:
        client.shutdown()


def test_who_does_not_know_the_secret_of_a_local_driver_is_refused(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError):
        ask(spark, authenticate=False)
    assert "HeartbeatReceiver" in ask(spark, authenticate=True)
    context: Any = spark.sparkContext
    secret = context._jsc.sc().env().securityManager().getSecretKey()
    assert len(secret) >= 32
    assert secret not in str(context.getConf().getAll())
    assert context.parallelize(range(10), 2).map(lambda n: (n % 2, n)).reduceByKey(int.__add__).count() == 2
