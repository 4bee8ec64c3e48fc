FROM nvidia/cuda:13.0.1-runtime-ubuntu24.04
# Versions are not pinned: the distribution's archive keeps none but its newest.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends python3.12-venv python3.12-dev git make gcc g++ \
    && rm -rf /var/lib/apt/lists/*
COPY . /opt/vineppo
WORKDIR /opt/vineppo
# A build sees no GPU, so that the lock file must be named.
RUN PIP_NO_CACHE_DIR=1 make setup LOCK=requirements/cuda.lock
ENV PATH=/opt/vineppo/.venv/bin:$PATH
ENTRYPOINT ["vineppo"]
