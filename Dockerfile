# SPDX-License-Identifier: Apache-2.0
# troupe with its demo model, as the user troupe:
#   docker build -t troupe .          (DOCKER_BUILDKIT=1 before it with Docker older than 23, as Debian 12's)
#   docker run --rm -p 127.0.0.1:8000:8000 -v troupe-state:/var/lib/troupe troupe --api-key KEY
# Another model: -v /srv/models/mine:/model:ro … --model /model. Without a key, see "Containers" in docs/configuration.md.
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends dpkg-dev file && rm -rf /var/lib/apt/lists/*
WORKDIR /troupe
COPY scripts scripts
RUN scripts/install-packages scripts/packages.txt
COPY . .
RUN scripts/build release troupe troupe-loadgen && cpack --config build/release/CPackConfig.cmake

FROM debian:12-slim
RUN --mount=type=bind,from=build,source=/troupe/build/release/package,target=/package \
    apt-get update && apt-get install -y --no-install-recommends curl /package/troupe_*.deb && rm -rf /var/lib/apt/lists/*
USER troupe
WORKDIR /var/lib/troupe
ENV XDG_STATE_HOME=/var/lib
VOLUME /var/lib/troupe
EXPOSE 8000
STOPSIGNAL SIGTERM
# /live: a container that loads, or drains, is well. The second form is for TLS.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s \
  CMD curl -fso /dev/null http://127.0.0.1:8000/live || curl -fsko /dev/null https://127.0.0.1:8000/live
ENTRYPOINT ["/usr/bin/troupe", "serve", "--host", "0.0.0.0"]
