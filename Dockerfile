# The server on a CPU. Build and run it in a clone:
#
#     docker build --tag isotune .
#     docker run --publish 8000:8000 --volume "$PWD/runs/notes/encoder:/model:ro" isotune
#
# In place of the folder, a model may be named: docker run --publish 8000:8000 isotune OWNER/NAME
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/isotune \
    && /opt/isotune/bin/pip install --no-cache-dir --constraint constraints.txt \
        --index-url https://download.pytorch.org/whl/cpu torch \
    && /opt/isotune/bin/pip install --no-cache-dir --constraint constraints.txt ".[search,serve]"

FROM python:3.11-slim
COPY --from=build /opt/isotune /opt/isotune
RUN useradd --create-home --uid 10001 isotune
USER 10001
WORKDIR /home/isotune
ENV PATH=/opt/isotune/bin:$PATH
EXPOSE 8000
# A large model takes its time to load.
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["isotune", "serve", "--host", "0.0.0.0"]
CMD ["/model"]
