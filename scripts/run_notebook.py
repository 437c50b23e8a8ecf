"""Runs a notebook in a folder, and writes it with its outputs: run_notebook.py FROM TO FOLDER KERNEL. An error of a cell ends it."""
import sys

import nbformat
from nbclient import NotebookClient

source, target, folder, kernel = sys.argv[1:]
notebook = nbformat.read(source, as_version=4)
client = NotebookClient(
    notebook, kernel_name=kernel, timeout=900, record_timing=False, resources={"metadata": {"path": folder}}
)
try:
    client.execute()
finally:
    nbformat.write(notebook, target)
