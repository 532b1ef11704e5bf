# A small image that serves models on the CPU:
#   docker build -t strata .
#   docker run --rm -e STRATA_API_KEY=secret -p 127.0.0.1:8080:8080 -v /models:/models:ro strata serve /models/x.gguf
# Without arguments it serves the demo model. Inside of a container it listens on all interfaces, so it wants a key.
FROM debian:12 AS build
COPY . /strata
WORKDIR /strata
RUN ./setup.sh --run \
 && cmake -S . -B build/image -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTRATA_TESTS=OFF -DSTRATA_CUDA=OFF \
 && cmake --build build/image --target strata \
 && cmake --install build/image --prefix /installed --strip

FROM debian:12-slim
COPY --from=build /installed /usr/local
RUN useradd --system --no-create-home strata
USER strata
ENV STRATA_HOST=0.0.0.0
EXPOSE 8080
# The program's first process gets the signals of docker stop, and ends in order.
STOPSIGNAL SIGTERM
ENTRYPOINT ["strata"]
CMD ["serve"]
