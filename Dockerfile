# wavetrim in a container. Build: docker build --tag wavetrim .
#
#   BASE_IMAGE   any Debian-like image with python3 >= 3.11 and its venv module
#   GPU          1 takes the CUDA parts from PyPI, 0 makes a CPU-only image
#   RAY          1 takes Ray from PyPI, for engines on other hosts, 0 leaves it out
#
# Two optional build secrets serve networks with their own package index or certificates:
# pip_conf (a pip.conf) and ca_bundle (certificates, at /run/secrets/ca_bundle).
ARG BASE_IMAGE=python:3.12-slim

# --- environment: locked dependencies, then the project's wheel, without pip --------------------
# The sources come last: a change of theirs leaves the dependencies in the build's cache.
FROM ${BASE_IMAGE} AS environment
ENV PIP_CONFIG_FILE=/run/secrets/pip_conf PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
RUN ["python3", "-m", "venv", "/opt/build"]
COPY requirements/build.lock requirements/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle \
    /opt/build/bin/pip install --quiet --require-hashes -r requirements/build.lock
ARG GPU=1
ARG RAY=0
COPY requirements/base.lock requirements/gpu.lock requirements/ray.lock requirements/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle \
    case "$GPU" in 0) locks=base ;; 1) locks=gpu ;; *) echo "GPU=$GPU: 0 or 1" >&2; exit 1 ;; esac \
    && case "$RAY" in 0) ;; 1) locks="$locks ray" ;; *) echo "RAY=$RAY: 0 or 1" >&2; exit 1 ;; esac \
    && python3 -m venv --without-pip /opt/wavetrim \
    && pip="/opt/build/bin/pip --python /opt/wavetrim/bin/python install --quiet" \
    && for lock in $locks; do $pip --require-hashes -r "requirements/$lock.lock" || exit; done
COPY pyproject.toml README.md LICENSE ./
COPY clients clients
COPY cpu cpu
COPY kernels kernels
COPY lab lab
COPY native native
COPY scheduler scheduler
COPY service service
COPY wavetrim wavetrim
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
    && /opt/build/bin/pip --python /opt/wavetrim/bin/python install --quiet --no-deps /opt/wheels/*.whl
# The image has no compiler, so the C libraries are compiled here, by zig's: a wheel from PyPI. With a
# target it takes neither this machine's newest instructions nor its newest glibc for granted.
RUN CC="/opt/build/bin/python -m ziglang cc -target $(uname -m)-linux-gnu.2.28" \
    ZIG_GLOBAL_CACHE_DIR=/tmp/zig /opt/wavetrim/bin/python -P -m wavetrim.service.libraries

# --- the image -----------------------------------------------------------------------------------
FROM ${BASE_IMAGE}
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="wavetrim" \
      org.opencontainers.image.description="Multiplies matrices on the GPU and the CPU at once" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

RUN groupadd --gid 10001 wavetrim \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin \
       wavetrim \
    && install --directory --owner=10001 --group=10001 --mode=0750 /data
COPY --from=environment /opt/wavetrim /opt/wavetrim

# Everything that is written, compiled kernels too, lives under /data, so the root file system can be read-only.
ENV PATH=/opt/wavetrim/bin:$PATH \
    HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    WAVETRIM_HOST=0.0.0.0 \
    WAVETRIM_PORT=8000 \
    WAVETRIM_DATA_DIR=/data \
    CUPY_CACHE_DIR=/data/cupy \
    CUDA_CACHE_PATH=/data/cuda \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["wavetrim", "health"]
ENTRYPOINT ["wavetrim"]
# It listens beyond loopback, so it starts only with WAVETRIM_API_KEY set.
CMD ["serve"]
