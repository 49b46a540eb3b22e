# Attune over HTTP: the core and the serve extra, no torch, not run by root.
#   docker build -t attune . && docker run --rm -p 127.0.0.1:8000:8000 attune
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE LICENSE-WEIGHTS ./
COPY attune ./attune
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir -c constraints.txt ".[serve]"

FROM python:3.11-slim
# llama.cpp needs the system's OpenMP library, which slim images lack
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 attune && install -d -o attune /var/cache/attune
COPY --from=build /venv /venv
# parts are fetched into the cache when they are first needed; keep it in a volume
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 ATTUNE_CACHE=/var/cache/attune ATTUNE_PORT=8000
VOLUME /var/cache/attune
USER attune
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=180s \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['ATTUNE_PORT'] + '/health', timeout=4)"]
CMD ["attune", "serve", "--host", "0.0.0.0"]
