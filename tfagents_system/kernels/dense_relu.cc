// The compiled ops of TensorFlow: dense layers, normalizations with ReLU, and their gradients.

#include <tensorflow/c/kernels.h>
#include <tensorflow/c/ops.h>
#include <tensorflow/c/tf_status.h>
#include <tensorflow/c/tf_tensor.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>

#include "matrix.h"
#include "normalization.h"
#include "products.h"

namespace kernels {
namespace {

struct DeleteStatus {
  void operator()(TF_Status* status) const { TF_DeleteStatus(status); }
};
struct DeleteTensor {
  void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
};
using Status = std::unique_ptr<TF_Status, DeleteStatus>;
using Tensor = std::unique_ptr<TF_Tensor, DeleteTensor>;

// Inputs and outputs of one call. After the first failure the op has failed and `ok` is false.
class Call {
 public:
  explicit Call(TF_OpKernelContext* context) : context_(context), status_(TF_NewStatus()) {}

  // The input at `index`: a matrix, or a vector as a matrix of one row.
  Matrix Input(int index, int rank) {
    TF_Tensor* tensor = nullptr;
    TF_GetInput(context_, index, &tensor, status_.get());
    if (!Check(TF_GetCode(status_.get()) == TF_OK, nullptr)) return {};
    Tensor& input = tensors_[num_tensors_++];
    input.reset(tensor);
    if (!Check(TF_NumDims(tensor) == rank, "an input has the wrong rank")) return {};
    return {static_cast<const float*>(TF_TensorData(tensor)),
            rank == 2 ? TF_Dim(tensor, 0) : 1, TF_Dim(tensor, rank - 1)};
  }

  float* Output(int index, std::initializer_list<int64_t> shape) {
    if (!ok) return nullptr;
    int64_t size = 1;
    for (const int64_t length : shape) size *= length;
    TF_Tensor* tensor = TF_AllocateOutput(context_, index, TF_FLOAT, shape.begin(), shape.size(),
                                          size * sizeof(float), status_.get());
    Tensor& output = tensors_[num_tensors_++];
    output.reset(tensor);
    if (!Check(TF_GetCode(status_.get()) == TF_OK, nullptr)) return nullptr;
    return static_cast<float*>(TF_TensorData(tensor));
  }

  // Fails with `message`, or with the error that the status has, unless `condition`.
  bool Check(bool condition, const char* message) {
    if (!ok || condition) return ok;
    if (message != nullptr) TF_SetStatus(status_.get(), TF_INVALID_ARGUMENT, message);
    TF_OpKernelContext_Failure(context_, status_.get());
    return ok = false;
  }

  bool CheckSame(int64_t one, int64_t other) {
    return Check(one == other, "the shapes of the inputs do not fit each other");
  }

  bool ok = true;

 private:
  TF_OpKernelContext* context_;
  Status status_;
  Tensor tensors_[9];  // as many as an op has at most
  int num_tensors_ = 0;
};

template <void (*kLayer)(const Matrix&, const Matrix&, const float*, float*)>
void ComputeLayer(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix inputs = call.Input(0, 2), kernel = call.Input(1, 2), bias = call.Input(2, 1);
  call.CheckSame(inputs.columns, kernel.rows);
  call.CheckSame(kernel.columns, bias.columns);
  float* outputs = call.Output(0, {inputs.rows, kernel.columns});
  if (call.ok) kLayer(inputs, kernel, bias.data, outputs);
}

// The upstream gradient, which is input 0; zero where ReLU, whose outputs are input 2, gave zero.
template <bool kHasRelu>
Matrix Upstream(Call& call) {
  Matrix upstream = call.Input(0, 2);
  if constexpr (kHasRelu) {
    const Matrix outputs = call.Input(2, 2);
    call.CheckSame(upstream.rows, outputs.rows);
    call.CheckSame(upstream.columns, outputs.columns);
    upstream.gate = outputs.data;
  }
  return upstream;
}

template <bool kHasRelu>
void ComputeInputGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<kHasRelu>(call), kernel = call.Input(1, 2);
  call.CheckSame(upstream.columns, kernel.columns);
  float* gradient = call.Output(0, {upstream.rows, kernel.rows});
  if (call.ok) InputGradient(upstream, kernel, gradient);
}

template <bool kHasRelu>
void ComputeKernelGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<kHasRelu>(call), inputs = call.Input(1, 2);
  call.CheckSame(upstream.rows, inputs.rows);
  float* gradient = call.Output(0, {inputs.columns, upstream.columns});
  float* bias = call.Output(1, {upstream.columns});
  if (call.ok) KernelGradient(inputs, upstream, gradient, bias);
}

void ComputeLayerNormRelu(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix inputs = call.Input(0, 2), gamma = call.Input(1, 1), beta = call.Input(2, 1);
  call.CheckSame(inputs.columns, gamma.columns);
  call.CheckSame(inputs.columns, beta.columns);
  float* outputs = call.Output(0, {inputs.rows, inputs.columns});
  if (call.ok) LayerNormRelu(inputs, gamma, beta.data, outputs);
}

void ComputeLayerNormReluGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<true>(call), inputs = call.Input(1, 2), gamma = call.Input(3, 1);
  call.CheckSame(upstream.rows, inputs.rows);
  call.CheckSame(upstream.columns, inputs.columns);
  call.CheckSame(inputs.columns, gamma.columns);
  float* gradient = call.Output(0, {inputs.rows, inputs.columns});
  float* gamma_gradient = call.Output(1, {inputs.columns});
  float* beta_gradient = call.Output(2, {inputs.columns});
  if (call.ok) {
    LayerNormReluGradient(upstream, inputs, gamma, gradient, gamma_gradient, beta_gradient);
  }
}

void ComputeBatchNormRelu(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix inputs = call.Input(0, 2), gamma = call.Input(1, 1), beta = call.Input(2, 1);
  call.CheckSame(inputs.columns, gamma.columns);
  call.CheckSame(inputs.columns, beta.columns);
  float* outputs = call.Output(0, {inputs.rows, inputs.columns});
  float* mean = call.Output(1, {inputs.columns});
  float* variance = call.Output(2, {inputs.columns});
  if (call.ok) BatchNormRelu(inputs, gamma, beta, outputs, mean, variance);
}

void ComputeBatchNormReluGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<true>(call), inputs = call.Input(1, 2), gamma = call.Input(3, 1),
               mean = call.Input(4, 1), variance = call.Input(5, 1);
  call.CheckSame(upstream.rows, inputs.rows);
  for (const Matrix& other : {upstream, gamma, mean, variance}) {
    call.CheckSame(other.columns, inputs.columns);
  }
  float* gradient = call.Output(0, {inputs.rows, inputs.columns});
  float* gamma_gradient = call.Output(1, {inputs.columns});
  float* beta_gradient = call.Output(2, {inputs.columns});
  if (call.ok) {
    BatchNormReluGradient(upstream, inputs, gamma, mean, variance, gradient, gamma_gradient,
                          beta_gradient);
  }
}

void Register(const char* name, std::initializer_list<const char*> inputs,
              std::initializer_list<const char*> outputs,
              void (*compute)(void*, TF_OpKernelContext*)) {
  const Status status(TF_NewStatus());
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(name);
  for (const char* input : inputs) TF_OpDefinitionBuilderAddInput(op, input);
  for (const char* output : outputs) TF_OpDefinitionBuilderAddOutput(op, output);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, TF_ShapeInferenceContextSetUnknownShape);
  TF_RegisterOpDefinition(op, status.get());
  if (TF_GetCode(status.get()) != TF_OK) std::abort();  // the op's name or a spec is misspelt
  TF_KernelBuilder* kernel = TF_NewKernelBuilder(name, "CPU", nullptr, compute, nullptr);
  TF_RegisterKernelBuilder(name, kernel, status.get());
  if (TF_GetCode(status.get()) != TF_OK) std::abort();
}

const bool kAreRegistered = [] {
  Register("MatMulBiasRelu", {"inputs: float", "kernel: float", "bias: float"},
           {"outputs: float"}, ComputeLayer<Dense<true>>);
  Register("Float32MatMulBiasRelu", {"inputs: float", "kernel: float", "bias: float"},
           {"outputs: float"}, ComputeLayer<Float32Dense<true>>);
  Register("MatMulBiasReluInputGrad", {"upstream: float", "kernel: float", "outputs: float"},
           {"input_gradient: float"}, ComputeInputGradient<true>);
  Register("MatMulBiasReluKernelGrad", {"upstream: float", "inputs: float", "outputs: float"},
           {"kernel_gradient: float", "bias_gradient: float"}, ComputeKernelGradient<true>);
  Register("MatMulBias", {"inputs: float", "kernel: float", "bias: float"}, {"outputs: float"},
           ComputeLayer<Dense<false>>);
  Register("Float32MatMulBias", {"inputs: float", "kernel: float", "bias: float"},
           {"outputs: float"}, ComputeLayer<Float32Dense<false>>);
  Register("MatMulBiasInputGrad", {"upstream: float", "kernel: float"}, {"input_gradient: float"},
           ComputeInputGradient<false>);
  Register("MatMulBiasKernelGrad", {"upstream: float", "inputs: float"},
           {"kernel_gradient: float", "bias_gradient: float"}, ComputeKernelGradient<false>);
  Register("LayerNormRelu", {"inputs: float", "gamma: float", "beta: float"}, {"outputs: float"},
           ComputeLayerNormRelu);
  Register("LayerNormReluGrad",
           {"upstream: float", "inputs: float", "outputs: float", "gamma: float"},
           {"input_gradient: float", "gamma_gradient: float", "beta_gradient: float"},
           ComputeLayerNormReluGradient);
  Register("BatchNormRelu", {"inputs: float", "gamma: float", "beta: float"},
           {"outputs: float", "mean: float", "variance: float"}, ComputeBatchNormRelu);
  Register("BatchNormReluGrad",
           {"upstream: float", "inputs: float", "outputs: float", "gamma: float", "mean: float",
            "variance: float"},
           {"input_gradient: float", "gamma_gradient: float", "beta_gradient: float"},
           ComputeBatchNormReluGradient);
  return true;
}();

}  // namespace
}  // namespace kernels
