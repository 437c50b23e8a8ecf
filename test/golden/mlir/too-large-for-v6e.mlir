// Attention without tiling over 131072 tokens: arguments are 32 MiB each, but the scores are a 32 GiB temporary,
// more than the 31.24 GiB of HBM that one v6e chip offers.
module @too_large_for_v6e {
  func.func public @main(%q: tensor<131072x128xbf16>, %k: tensor<131072x128xbf16>, %v: tensor<131072x128xbf16>) -> tensor<131072x128xbf16> {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %0 = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1] : (tensor<131072x128xbf16>, tensor<131072x128xbf16>) -> tensor<131072x131072xbf16>
    %1 = stablehlo.exponential %0 : tensor<131072x131072xbf16>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<131072x131072xbf16>, tensor<bf16>) -> tensor<131072xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<131072xbf16>) -> tensor<131072x131072xbf16>
    %4 = stablehlo.divide %1, %3 : tensor<131072x131072xbf16>
    %5 = stablehlo.dot_general %4, %v, contracting_dims = [1] x [0] : (tensor<131072x131072xbf16>, tensor<131072x128xbf16>) -> tensor<131072x128xbf16>
    return %5 : tensor<131072x128xbf16>
  }
}
