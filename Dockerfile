# A Penstock broker: `docker build -t penstock .`, then
#   docker run -e PENSTOCK_INSECURE=true -p 127.0.0.1:9092:9092 -p 127.0.0.1:8080:8080 \
#       -v penstock:/var/lib/penstock penstock
# Every client that reaches the ports may read and change everything, so the image does not start
# until PENSTOCK_INSECURE says that this is intended: publish the ports on loopback only.
# Three of them with metrics and a board: `penstock generate compose`.

# Of both stages. By digest it is the same image every time:
#   docker build --build-arg PYTHON=python:3.13-slim@sha256:… -t penstock .
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
WORKDIR /build
# The exact versions of what penstock[server] needs.
COPY requirements/runtime.lock requirements/runtime.lock
RUN python -m venv /opt/penstock \
    && /opt/penstock/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.lock
# And of what builds its wheel, which stays behind.
COPY requirements/run.lock requirements/run.lock
RUN python -m venv /build/tools \
    && /build/tools/bin/pip install --no-cache-dir --require-hashes -r requirements/run.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /build/tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation -w dist . \
    && /opt/penstock/bin/pip install --no-cache-dir --no-deps dist/*.whl

FROM ${PYTHON}
RUN useradd --system --uid 10001 --home-dir /var/lib/penstock penstock \
    && install -d -o penstock -g penstock -m 0750 /var/lib/penstock
COPY --from=build /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER penstock
WORKDIR /var/lib/penstock
VOLUME /var/lib/penstock
EXPOSE 9092 8080 9192
# SIGTERM stops it in good order: it hands over what it leads and finishes what is under way.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["penstock"]
# Ports of a container are reached where they are published and by other containers of its network.
CMD ["serve", "--data=/var/lib/penstock", "--kafka=0.0.0.0:9092", "--http=0.0.0.0:8080", \
    "--advertise-kafka=127.0.0.1:9092", "--log.format=json"]
