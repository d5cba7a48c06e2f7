"""A broker whose dashboard only shows: a real one."""

import http.client
from contextlib import closing

import boto3
import pytest

from penstock.testing import PenstockServer
from tests.web_broker import ask


@pytest.mark.slow
def test_nothing_is_changed_by_http_and_clients_work_on() -> None:
    with PenstockServer(settings={"web.read_only": True}) as broker:
        place = broker.places.http
        for method, path in (
            ("POST", "/v1/queues"),
            ("DELETE", "/v1/queues/jobs"),
            ("PATCH", "/v1/queues/jobs"),
            ("POST", "/v1/cluster/transfer"),
        ):
            status, told = ask(place, method, path, {"name": "jobs"})
            assert (status, told["error"]) == (403, "ReadOnly"), path
        sqs = boto3.client(
            "sqs",
            endpoint_url=broker.sqs_url,
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="y",
        )
        sqs.create_queue(QueueName="jobs")
        assert ask(place, "GET", "/v1/queues/jobs")[0] == 200
        with closing(http.client.HTTPConnection(place, timeout=60)) as connection:
            for path in ("/", "/queues/jobs", "/cluster"):
                connection.request("GET", path)
                text = connection.getresponse().read().decode()
                assert "read only" in text
                assert "data-action" not in text, f"{path} has a button"
