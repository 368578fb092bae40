# Writes repeng.gguf and glp.gguf with Python's gguf package: the first with the
# calls of repeng's ControlVector.export_gguf, the second as a GLP projection.
# Run it in this folder: python repeng.py
import hashlib

import gguf
import numpy as np

w = gguf.GGUFWriter("repeng.gguf", "controlvector")
w.add_string("controlvector.model_hint", "mistral")
w.add_uint32("controlvector.layer_count", 4)
for layer in range(1, 5):
    w.add_tensor(f"direction.{layer}", layer + np.arange(8, dtype=np.float32) / 8)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

directions = {1: [0.5, 0.5, 0.5, 0.5], 2: [1.0, 0.0, 0.0, 0.0]}
directions = {n: np.array(d, dtype=np.float32) for n, d in directions.items()}
w = gguf.GGUFWriter("glp.gguf", "controlvector")
w.add_string("general.type", "controlvector")
w.add_string("general.name", "glp")
w.add_string("glp.mode", "project")
w.add_string("glp.hook_point", "residual_stream_post_layer")
w.add_string("glp.derived_at", "residual_stream_post_layer")
w.add_string("glp.method", "paired_difference_of_means")
w.add_string("glp.layer_ids_zero_based", "1,2")
w.add_string("glp.content_sha256", hashlib.sha256(b"".join(d.tobytes() for d in directions.values())).hexdigest())
w.add_uint32("glp.spec_version", 1)
w.add_uint32("glp.rank", 1)
w.add_float32("glp.alpha_default", 1.5)
w.add_bool("glp.orthonormal", True)
for layer, d in directions.items():
    w.add_tensor(f"direction.{layer}", d)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
