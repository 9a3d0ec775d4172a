import socket

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.ports import check_port_is_free, free_port


def test_free_port_passes_the_check():
    check_port_is_free(free_port())


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_check_port_refuses_a_port_that_grpc_would_share(family):
    with socket.socket(family) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as a gRPC server does
        server.bind(("", 0))
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(ConfigError, match=f"SAC_REVERB_PORT is {port}, which is in use"):
            check_port_is_free(port)


def test_check_port_accepts_a_port_whose_last_connection_is_in_time_wait():
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("localhost", port)) as client:
            accepted, _ = server.accept()
            accepted.close()  # the server's side closes first, so TIME_WAIT is on its port
            assert client.recv(1) == b""
    check_port_is_free(port)
