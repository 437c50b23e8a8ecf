// Parses, but the verifier refuses line 4: the contracted sizes 3 and 5 differ.
module @wrong_type {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<5x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
