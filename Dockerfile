# All programs in one image: docker build --build-arg VERSION=v1.2.3 --build-arg COMMIT=$(git rev-parse HEAD) -t iqgate .
# `make release` writes an image of the same content without Docker.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=""
ARG COMMIT=""
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/iqgate/iqgate/cmd/internal/build.version=$VERSION -X github.com/iqgate/iqgate/cmd/internal/build.commit=$COMMIT" \
      -o /out/ ./cmd/iqnode ./cmd/iqrouter ./cmd/iqctl ./cmd/iqbench && mkdir /state

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/ /usr/bin/
# A volume begins with the owner of what it covers.
COPY --from=build --chown=65532:65532 /state /var/lib/iqnode
USER 65532:65532
WORKDIR /
EXPOSE 7000 7070
CMD ["/usr/bin/iqnode", "--help"]
