"""Adds the layer that is generated from goals to an ONNX graph."""

import numpy as np

from tfagents_system.export.onnx_nodes import Constants, Nodes, constant


def add_generated(nodes: Nodes, x: str, goals: str, constants: Constants) -> str:
    """Adds `numpy_layers.generated` of `x` [B, n] and goals [B, g]; returns its name [B, units]."""

    def dense(x: str, index: int) -> str:
        return nodes.add("Gemm", x, f"goal_kernel_{index}", f"goal_bias_{index}")

    for index in range(2):
        goals = dense(goals, index)
        goals = nodes.add("Mul", goals, nodes.add("Sigmoid", goals))
    centered = nodes.add("Sub", goals, nodes.add("ReduceMean", goals, axes=[1]))
    variance = nodes.add("ReduceMean", nodes.add("Mul", centered, centered), axes=[1])
    epsilon = constant(constants, np.array([1e-5], np.float32))
    deviation = nodes.add("Sqrt", nodes.add("Add", variance, epsilon))
    kernels = dense(nodes.add("Div", centered, deviation), 2)
    units = len(constants["generated_bias"])
    num_inputs = len(constants["goal_bias_2"]) // units
    kernels = nodes.add("Reshape", kernels, constant(constants, np.array([-1, num_inputs, units])))
    x = nodes.add("Reshape", x, constant(constants, np.array([-1, 1, num_inputs])))
    x = nodes.add("Reshape", nodes.add("MatMul", x, kernels), "rows")
    return nodes.add("Relu", nodes.add("Add", x, "generated_bias"))
