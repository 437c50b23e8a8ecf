// One step of training a small network to be a sine: forward, backward and gradient descent, in one program.
//   h = tanh(x w1 + b1)    p = h w2 + b2    loss = mean((p - y)^2)
// The four parameters are donated: their new values are written where the old ones were.
module @sine {
  func.func public @main(
      %w1: tensor<1x64xf32> {tf.aliasing_output = 0 : i32}, %b1: tensor<64xf32> {tf.aliasing_output = 1 : i32},
      %w2: tensor<64x1xf32> {tf.aliasing_output = 2 : i32}, %b2: tensor<1xf32> {tf.aliasing_output = 3 : i32},
      %x: tensor<256x1xf32>, %y: tensor<256x1xf32>, %lr: tensor<f32>)
      -> (tensor<1x64xf32>, tensor<64xf32>, tensor<64x1xf32>, tensor<1xf32>, tensor<f32>, tensor<256x1xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<256x64xf32>
    %n = stablehlo.constant dense<256.0> : tensor<f32>
    %two_over_n = stablehlo.constant dense<0.0078125> : tensor<256x1xf32>

    // forward
    %xw1 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<256x1xf32>, tensor<1x64xf32>) -> tensor<256x64xf32>
    %b1s = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<64xf32>) -> tensor<256x64xf32>
    %z = stablehlo.add %xw1, %b1s : tensor<256x64xf32>
    %h = stablehlo.tanh %z : tensor<256x64xf32>
    %hw2 = stablehlo.dot_general %h, %w2, contracting_dims = [1] x [0] : (tensor<256x64xf32>, tensor<64x1xf32>) -> tensor<256x1xf32>
    %b2s = stablehlo.broadcast_in_dim %b2, dims = [1] : (tensor<1xf32>) -> tensor<256x1xf32>
    %p = stablehlo.add %hw2, %b2s : tensor<256x1xf32>
    %e = stablehlo.subtract %p, %y : tensor<256x1xf32>
    %e2 = stablehlo.multiply %e, %e : tensor<256x1xf32>
    %sum = stablehlo.reduce(%e2 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<256x1xf32>, tensor<f32>) -> tensor<f32>
    %loss = stablehlo.divide %sum, %n : tensor<f32>

    // backward
    %dp = stablehlo.multiply %e, %two_over_n : tensor<256x1xf32>
    %dw2 = stablehlo.dot_general %h, %dp, contracting_dims = [0] x [0] : (tensor<256x64xf32>, tensor<256x1xf32>) -> tensor<64x1xf32>
    %db2 = stablehlo.reduce(%dp init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<256x1xf32>, tensor<f32>) -> tensor<1xf32>
    %dh = stablehlo.dot_general %dp, %w2, contracting_dims = [1] x [1] : (tensor<256x1xf32>, tensor<64x1xf32>) -> tensor<256x64xf32>
    %h2 = stablehlo.multiply %h, %h : tensor<256x64xf32>
    %slope = stablehlo.subtract %one, %h2 : tensor<256x64xf32>
    %dz = stablehlo.multiply %dh, %slope : tensor<256x64xf32>
    %dw1 = stablehlo.dot_general %x, %dz, contracting_dims = [0] x [0] : (tensor<256x1xf32>, tensor<256x64xf32>) -> tensor<1x64xf32>
    %db1 = stablehlo.reduce(%dz init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<256x64xf32>, tensor<f32>) -> tensor<64xf32>

    // update
    %lr_w1 = stablehlo.broadcast_in_dim %lr, dims = [] : (tensor<f32>) -> tensor<1x64xf32>
    %lr_b1 = stablehlo.broadcast_in_dim %lr, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %lr_w2 = stablehlo.broadcast_in_dim %lr, dims = [] : (tensor<f32>) -> tensor<64x1xf32>
    %lr_b2 = stablehlo.broadcast_in_dim %lr, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %step_w1 = stablehlo.multiply %lr_w1, %dw1 : tensor<1x64xf32>
    %step_b1 = stablehlo.multiply %lr_b1, %db1 : tensor<64xf32>
    %step_w2 = stablehlo.multiply %lr_w2, %dw2 : tensor<64x1xf32>
    %step_b2 = stablehlo.multiply %lr_b2, %db2 : tensor<1xf32>
    %new_w1 = stablehlo.subtract %w1, %step_w1 : tensor<1x64xf32>
    %new_b1 = stablehlo.subtract %b1, %step_b1 : tensor<64xf32>
    %new_w2 = stablehlo.subtract %w2, %step_w2 : tensor<64x1xf32>
    %new_b2 = stablehlo.subtract %b2, %step_b2 : tensor<1xf32>
    return %new_w1, %new_b1, %new_w2, %new_b2, %loss, %p
      : tensor<1x64xf32>, tensor<64xf32>, tensor<64x1xf32>, tensor<1xf32>, tensor<f32>, tensor<256x1xf32>
  }
}
