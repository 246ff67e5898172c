"""Runs a job of ours by its name: spark-submit takes a file, and the folder of that file becomes the first place where
Python looks for modules. In the folder of the jobs themselves `copy` would be one of ours."""

import runpy
import sys

name = sys.argv.pop(1)
runpy.run_module(f"slate_engine.spark.{name}", run_name="__main__", alter_sys=True)
