// Result of 256 TiB: more than a 47-bit address space, so the allocation fails whatever the machine's overcommit setting.
module @huge_output {
  func.func public @main(%a: tensor<f32>) -> tensor<8388608x8388608xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<8388608x8388608xf32>
    return %0 : tensor<8388608x8388608xf32>
  }
}
