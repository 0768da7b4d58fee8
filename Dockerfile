# The gateway in a container: docker build -t toolwire . && docker compose up
FROM python:3.13-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/toolwire && /opt/toolwire/bin/pip install --no-cache-dir '.[serve,telemetry]'

FROM python:3.13-slim-bookworm
COPY --from=build /opt/toolwire /opt/toolwire
RUN useradd --system --uid 10001 --no-create-home toolwire && install -d -o toolwire /var/lib/toolwire /etc/toolwire
USER toolwire
WORKDIR /var/lib/toolwire
ENV PATH=/opt/toolwire/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["python", "-c", \
    "import urllib.request as r; r.urlopen(r.Request('http://127.0.0.1:8080/ready'), timeout=2)"]
ENTRYPOINT ["toolwire"]
CMD ["serve", "--config", "/etc/toolwire/toolwire.toml", "--listen", "0.0.0.0:8080"]
