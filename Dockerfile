# An image in which `sac` trains as an unprivileged user. docs/setup.md explains how to use it.
#   docker build --tag sac .        more packages: --build-arg EXTRAS=mujoco,dm_control
#   docker run --rm --volume "$PWD:/runs" --user "$(id -u):$(id -g)" sac sac train --env Pendulum-v1

FROM debian:bookworm-slim AS build
# With c++, setup.sh builds the learner's kernels; daemontools saves it an installation.
RUN apt-get update && apt-get install -y --no-install-recommends \
    ca-certificates daemontools g++ python3 python3-pip python3-venv
WORKDIR /opt/sac
COPY pyproject.toml setup.sh ./
COPY locks locks
COPY tfagents_system tfagents_system
ARG EXTRAS=
# Users of the image cannot write compiled modules next to their sources.
RUN ./setup.sh ${EXTRAS:+--with "$EXTRAS"} && .venv/bin/python -m compileall -q tfagents_system

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
    ca-certificates daemontools python3 tini && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/sac /opt/sac
ENV PATH=/opt/sac/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN useradd --uid 1000 --create-home sac && install -d -o sac -g sac /runs
USER sac
WORKDIR /runs
# Experiments are in /runs/logs; `sac train --env` writes its files to /runs.
VOLUME /runs
# Process 1 forwards signals to the run, which saves before it ends, and reaps orphans.
ENTRYPOINT ["tini", "--"]
CMD ["sac", "--help"]
