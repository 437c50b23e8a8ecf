module @jit_gpt_step_test attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x16xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<32x16xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<16x32xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<16x16xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<16xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<16xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<16x16xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<16x16xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<16x32xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<16x16xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<32x16xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<16x32xf32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<16x16xf32> {tf.aliasing_output = 12 : i32}, %arg13: tensor<16xf32> {tf.aliasing_output = 13 : i32}, %arg14: tensor<16xf32> {tf.aliasing_output = 14 : i32}, %arg15: tensor<16x16xf32> {tf.aliasing_output = 15 : i32}, %arg16: tensor<16x16xf32> {tf.aliasing_output = 16 : i32}, %arg17: tensor<16x32xf32> {tf.aliasing_output = 17 : i32}, %arg18: tensor<16x16xf32> {tf.aliasing_output = 18 : i32}, %arg19: tensor<32x16xf32> {tf.aliasing_output = 19 : i32}, %arg20: tensor<16x32xf32> {tf.aliasing_output = 20 : i32}, %arg21: tensor<16x16xf32> {tf.aliasing_output = 21 : i32}, %arg22: tensor<16xf32> {tf.aliasing_output = 22 : i32}, %arg23: tensor<16xf32> {tf.aliasing_output = 23 : i32}, %arg24: tensor<16x16xf32> {tf.aliasing_output = 24 : i32}, %arg25: tensor<16x16xf32> {tf.aliasing_output = 25 : i32}, %arg26: tensor<16x32xf32> {tf.aliasing_output = 26 : i32}, %arg27: tensor<16x16xf32> {tf.aliasing_output = 27 : i32}, %arg28: tensor<32x16xf32> {tf.aliasing_output = 28 : i32}, %arg29: tensor<16x32xf32> {tf.aliasing_output = 29 : i32}, %arg30: tensor<16x16xf32> {tf.aliasing_output = 30 : i32}, %arg31: tensor<16xf32> {tf.aliasing_output = 31 : i32}, %arg32: tensor<16xf32> {tf.aliasing_output = 32 : i32}, %arg33: tensor<16x16xf32> {tf.aliasing_output = 33 : i32}, %arg34: tensor<16x16xf32> {tf.aliasing_output = 34 : i32}, %arg35: tensor<16x32xf32> {tf.aliasing_output = 35 : i32}, %arg36: tensor<16x16xf32> {tf.aliasing_output = 36 : i32}, %arg37: tensor<16xf32> {tf.aliasing_output = 37 : i32}, %arg38: tensor<64x16xf32> {tf.aliasing_output = 38 : i32}, %arg39: tensor<32x16xf32> {tf.aliasing_output = 39 : i32}, %arg40: tensor<16x32xf32> {tf.aliasing_output = 40 : i32}, %arg41: tensor<16x16xf32> {tf.aliasing_output = 41 : i32}, %arg42: tensor<16xf32> {tf.aliasing_output = 42 : i32}, %arg43: tensor<16xf32> {tf.aliasing_output = 43 : i32}, %arg44: tensor<16x16xf32> {tf.aliasing_output = 44 : i32}, %arg45: tensor<16x16xf32> {tf.aliasing_output = 45 : i32}, %arg46: tensor<16x32xf32> {tf.aliasing_output = 46 : i32}, %arg47: tensor<16x16xf32> {tf.aliasing_output = 47 : i32}, %arg48: tensor<32x16xf32> {tf.aliasing_output = 48 : i32}, %arg49: tensor<16x32xf32> {tf.aliasing_output = 49 : i32}, %arg50: tensor<16x16xf32> {tf.aliasing_output = 50 : i32}, %arg51: tensor<16xf32> {tf.aliasing_output = 51 : i32}, %arg52: tensor<16xf32> {tf.aliasing_output = 52 : i32}, %arg53: tensor<16x16xf32> {tf.aliasing_output = 53 : i32}, %arg54: tensor<16x16xf32> {tf.aliasing_output = 54 : i32}, %arg55: tensor<16x32xf32> {tf.aliasing_output = 55 : i32}, %arg56: tensor<16x16xf32> {tf.aliasing_output = 56 : i32}, %arg57: tensor<32x16xf32> {tf.aliasing_output = 57 : i32}, %arg58: tensor<16x32xf32> {tf.aliasing_output = 58 : i32}, %arg59: tensor<16x16xf32> {tf.aliasing_output = 59 : i32}, %arg60: tensor<16xf32> {tf.aliasing_output = 60 : i32}, %arg61: tensor<16xf32> {tf.aliasing_output = 61 : i32}, %arg62: tensor<16x16xf32> {tf.aliasing_output = 62 : i32}, %arg63: tensor<16x16xf32> {tf.aliasing_output = 63 : i32}, %arg64: tensor<16x32xf32> {tf.aliasing_output = 64 : i32}, %arg65: tensor<16x16xf32> {tf.aliasing_output = 65 : i32}, %arg66: tensor<32x16xf32> {tf.aliasing_output = 66 : i32}, %arg67: tensor<16x32xf32> {tf.aliasing_output = 67 : i32}, %arg68: tensor<16x16xf32> {tf.aliasing_output = 68 : i32}, %arg69: tensor<16xf32> {tf.aliasing_output = 69 : i32}, %arg70: tensor<16xf32> {tf.aliasing_output = 70 : i32}, %arg71: tensor<16x16xf32> {tf.aliasing_output = 71 : i32}, %arg72: tensor<16x16xf32> {tf.aliasing_output = 72 : i32}, %arg73: tensor<16x32xf32> {tf.aliasing_output = 73 : i32}, %arg74: tensor<16x16xf32> {tf.aliasing_output = 74 : i32}, %arg75: tensor<16xf32> {tf.aliasing_output = 75 : i32}, %arg76: tensor<64x16xf32> {tf.aliasing_output = 76 : i32}, %arg77: tensor<32x16xf32> {tf.aliasing_output = 77 : i32}, %arg78: tensor<16x32xf32> {tf.aliasing_output = 78 : i32}, %arg79: tensor<16x16xf32> {tf.aliasing_output = 79 : i32}, %arg80: tensor<16xf32> {tf.aliasing_output = 80 : i32}, %arg81: tensor<16xf32> {tf.aliasing_output = 81 : i32}, %arg82: tensor<16x16xf32> {tf.aliasing_output = 82 : i32}, %arg83: tensor<16x16xf32> {tf.aliasing_output = 83 : i32}, %arg84: tensor<16x32xf32> {tf.aliasing_output = 84 : i32}, %arg85: tensor<16x16xf32> {tf.aliasing_output = 85 : i32}, %arg86: tensor<32x16xf32> {tf.aliasing_output = 86 : i32}, %arg87: tensor<16x32xf32> {tf.aliasing_output = 87 : i32}, %arg88: tensor<16x16xf32> {tf.aliasing_output = 88 : i32}, %arg89: tensor<16xf32> {tf.aliasing_output = 89 : i32}, %arg90: tensor<16xf32> {tf.aliasing_output = 90 : i32}, %arg91: tensor<16x16xf32> {tf.aliasing_output = 91 : i32}, %arg92: tensor<16x16xf32> {tf.aliasing_output = 92 : i32}, %arg93: tensor<16x32xf32> {tf.aliasing_output = 93 : i32}, %arg94: tensor<16x16xf32> {tf.aliasing_output = 94 : i32}, %arg95: tensor<32x16xf32> {tf.aliasing_output = 95 : i32}, %arg96: tensor<16x32xf32> {tf.aliasing_output = 96 : i32}, %arg97: tensor<16x16xf32> {tf.aliasing_output = 97 : i32}, %arg98: tensor<16xf32> {tf.aliasing_output = 98 : i32}, %arg99: tensor<16xf32> {tf.aliasing_output = 99 : i32}, %arg100: tensor<16x16xf32> {tf.aliasing_output = 100 : i32}, %arg101: tensor<16x16xf32> {tf.aliasing_output = 101 : i32}, %arg102: tensor<16x32xf32> {tf.aliasing_output = 102 : i32}, %arg103: tensor<16x16xf32> {tf.aliasing_output = 103 : i32}, %arg104: tensor<32x16xf32> {tf.aliasing_output = 104 : i32}, %arg105: tensor<16x32xf32> {tf.aliasing_output = 105 : i32}, %arg106: tensor<16x16xf32> {tf.aliasing_output = 106 : i32}, %arg107: tensor<16xf32> {tf.aliasing_output = 107 : i32}, %arg108: tensor<16xf32> {tf.aliasing_output = 108 : i32}, %arg109: tensor<16x16xf32> {tf.aliasing_output = 109 : i32}, %arg110: tensor<16x16xf32> {tf.aliasing_output = 110 : i32}, %arg111: tensor<16x32xf32> {tf.aliasing_output = 111 : i32}, %arg112: tensor<16x16xf32> {tf.aliasing_output = 112 : i32}, %arg113: tensor<16xf32> {tf.aliasing_output = 113 : i32}, %arg114: tensor<i32> {tf.aliasing_output = 114 : i32}, %arg115: tensor<2x8xi32>, %arg116: tensor<2x8xi32>) -> (tensor<64x16xf32> {jax.result_info = "result[0]['emb']"}, tensor<32x16xf32> {jax.result_info = "result[0]['layers'][0]['d']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][0]['g']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][0]['k']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][0]['n1']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][0]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][0]['o']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][0]['q']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][0]['u']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][0]['v']"}, tensor<32x16xf32> {jax.result_info = "result[0]['layers'][1]['d']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][1]['g']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][1]['k']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][1]['n1']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][1]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][1]['o']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][1]['q']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][1]['u']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][1]['v']"}, tensor<32x16xf32> {jax.result_info = "result[0]['layers'][2]['d']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][2]['g']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][2]['k']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][2]['n1']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][2]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][2]['o']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][2]['q']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][2]['u']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][2]['v']"}, tensor<32x16xf32> {jax.result_info = "result[0]['layers'][3]['d']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][3]['g']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][3]['k']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][3]['n1']"}, tensor<16xf32> {jax.result_info = "result[0]['layers'][3]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][3]['o']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][3]['q']"}, tensor<16x32xf32> {jax.result_info = "result[0]['layers'][3]['u']"}, tensor<16x16xf32> {jax.result_info = "result[0]['layers'][3]['v']"}, tensor<16xf32> {jax.result_info = "result[0]['nf']"}, tensor<64x16xf32> {jax.result_info = "result[1]['emb']"}, tensor<32x16xf32> {jax.result_info = "result[1]['layers'][0]['d']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][0]['g']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][0]['k']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][0]['n1']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][0]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][0]['o']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][0]['q']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][0]['u']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][0]['v']"}, tensor<32x16xf32> {jax.result_info = "result[1]['layers'][1]['d']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][1]['g']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][1]['k']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][1]['n1']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][1]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][1]['o']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][1]['q']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][1]['u']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][1]['v']"}, tensor<32x16xf32> {jax.result_info = "result[1]['layers'][2]['d']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][2]['g']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][2]['k']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][2]['n1']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][2]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][2]['o']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][2]['q']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][2]['u']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][2]['v']"}, tensor<32x16xf32> {jax.result_info = "result[1]['layers'][3]['d']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][3]['g']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][3]['k']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][3]['n1']"}, tensor<16xf32> {jax.result_info = "result[1]['layers'][3]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][3]['o']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][3]['q']"}, tensor<16x32xf32> {jax.result_info = "result[1]['layers'][3]['u']"}, tensor<16x16xf32> {jax.result_info = "result[1]['layers'][3]['v']"}, tensor<16xf32> {jax.result_info = "result[1]['nf']"}, tensor<64x16xf32> {jax.result_info = "result[2]['emb']"}, tensor<32x16xf32> {jax.result_info = "result[2]['layers'][0]['d']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][0]['g']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][0]['k']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][0]['n1']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][0]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][0]['o']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][0]['q']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][0]['u']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][0]['v']"}, tensor<32x16xf32> {jax.result_info = "result[2]['layers'][1]['d']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][1]['g']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][1]['k']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][1]['n1']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][1]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][1]['o']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][1]['q']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][1]['u']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][1]['v']"}, tensor<32x16xf32> {jax.result_info = "result[2]['layers'][2]['d']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][2]['g']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][2]['k']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][2]['n1']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][2]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][2]['o']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][2]['q']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][2]['u']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][2]['v']"}, tensor<32x16xf32> {jax.result_info = "result[2]['layers'][3]['d']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][3]['g']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][3]['k']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][3]['n1']"}, tensor<16xf32> {jax.result_info = "result[2]['layers'][3]['n2']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][3]['o']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][3]['q']"}, tensor<16x32xf32> {jax.result_info = "result[2]['layers'][3]['u']"}, tensor<16x16xf32> {jax.result_info = "result[2]['layers'][3]['v']"}, tensor<16xf32> {jax.result_info = "result[2]['nf']"}, tensor<i32> {jax.result_info = "result[3]"}, tensor<f32> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.reshape %arg115 : (tensor<2x8xi32>) -> tensor<16xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<16xi32>
    %2 = stablehlo.compare LT, %0, %1, SIGNED : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
    %c_0 = stablehlo.constant dense<64> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<16xi32>
    %4 = stablehlo.add %0, %3 : tensor<16xi32>
    %5 = stablehlo.select %2, %4, %0 : tensor<16xi1>, tensor<16xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %7 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<64x16xf32>, tensor<16x1xi32>) -> tensor<16x16xf32>
    %c_1 = stablehlo.constant dense<true> : tensor<i1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %9 = call @tril(%8) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %10 = stablehlo.multiply %7, %7 : tensor<16x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%10 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_2 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %14 = stablehlo.divide %12, %13 : tensor<16x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %16 = stablehlo.add %14, %15 : tensor<16x1xf32>
    %17 = stablehlo.rsqrt %16 : tensor<16x1xf32>
    %18 = stablehlo.divide %17, %16 : tensor<16x1xf32>
    %cst_4 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %20 = stablehlo.multiply %19, %18 : tensor<16x1xf32>
    %21 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %22 = stablehlo.multiply %7, %21 : tensor<16x16xf32>
    %23 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %25 = stablehlo.multiply %22, %24 : tensor<16x16xf32>
    %26 = stablehlo.dot_general %25, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %27 = stablehlo.reshape %26 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %28 = stablehlo.dot_general %25, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %29 = stablehlo.reshape %28 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %30 = stablehlo.dot_general %25, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %31 = stablehlo.reshape %30 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %32 = stablehlo.dot_general %27, %29, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_5 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %34 = stablehlo.divide %32, %33 : tensor<2x2x8x8xf32>
    %cst_6 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %35:3 = call @_where(%9, %34, %cst_6) : (tensor<8x8xi1>, tensor<2x2x8x8xf32>, tensor<f32>) -> (tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>)
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %36 = stablehlo.reduce(%35#0 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %37 = stablehlo.reshape %36 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %39 = stablehlo.compare EQ, %35#0, %38, FLOAT : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xi1>
    %40 = stablehlo.convert %39 : (tensor<2x2x8x8xi1>) -> tensor<2x2x8x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %41 = stablehlo.reduce(%40 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %43 = stablehlo.maximum %42, %36 : tensor<2x2x8xf32>
    %44 = stablehlo.compare EQ, %36, %43, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %47 = stablehlo.select %44, %45, %46 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %49 = stablehlo.compare EQ, %48, %43, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_13 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_14 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %52 = stablehlo.select %49, %50, %51 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %53 = stablehlo.divide %47, %52 : tensor<2x2x8xf32>
    %54 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %56 = stablehlo.subtract %35#0, %55 : tensor<2x2x8x8xf32>
    %57 = stablehlo.exponential %56 : tensor<2x2x8x8xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %58 = stablehlo.reduce(%57 init: %cst_15) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %61 = stablehlo.divide %57, %60 : tensor<2x2x8x8xf32>
    %62 = stablehlo.multiply %59, %59 : tensor<2x2x8x1xf32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x2x8x1xf32>
    %64 = stablehlo.divide %63, %62 : tensor<2x2x8x1xf32>
    %65 = stablehlo.dot_general %31, %61, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %66 = stablehlo.transpose %65, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %67 = stablehlo.reshape %66 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %68 = stablehlo.dot_general %67, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %69 = stablehlo.add %7, %68 : tensor<16x16xf32>
    %70 = stablehlo.multiply %69, %69 : tensor<16x16xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_18 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %74 = stablehlo.divide %72, %73 : tensor<16x1xf32>
    %cst_19 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %76 = stablehlo.add %74, %75 : tensor<16x1xf32>
    %77 = stablehlo.rsqrt %76 : tensor<16x1xf32>
    %78 = stablehlo.divide %77, %76 : tensor<16x1xf32>
    %cst_20 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %80 = stablehlo.multiply %79, %78 : tensor<16x1xf32>
    %81 = stablehlo.broadcast_in_dim %77, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %82 = stablehlo.multiply %69, %81 : tensor<16x16xf32>
    %83 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %85 = stablehlo.multiply %82, %84 : tensor<16x16xf32>
    %86 = stablehlo.dot_general %85, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %87:3 = call @silu(%86) : (tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>)
    %88 = stablehlo.dot_general %85, %arg8, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %89 = stablehlo.multiply %87#0, %88 : tensor<16x32xf32>
    %90 = stablehlo.dot_general %89, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
    %91 = stablehlo.add %69, %90 : tensor<16x16xf32>
    %92 = stablehlo.multiply %91, %91 : tensor<16x16xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %93 = stablehlo.reduce(%92 init: %cst_21) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_22 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %96 = stablehlo.divide %94, %95 : tensor<16x1xf32>
    %cst_23 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %98 = stablehlo.add %96, %97 : tensor<16x1xf32>
    %99 = stablehlo.rsqrt %98 : tensor<16x1xf32>
    %100 = stablehlo.divide %99, %98 : tensor<16x1xf32>
    %cst_24 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %102 = stablehlo.multiply %101, %100 : tensor<16x1xf32>
    %103 = stablehlo.broadcast_in_dim %99, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %104 = stablehlo.multiply %91, %103 : tensor<16x16xf32>
    %105 = stablehlo.broadcast_in_dim %arg13, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %107 = stablehlo.multiply %104, %106 : tensor<16x16xf32>
    %108 = stablehlo.dot_general %107, %arg16, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %109 = stablehlo.reshape %108 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %110 = stablehlo.dot_general %107, %arg12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %111 = stablehlo.reshape %110 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %112 = stablehlo.dot_general %107, %arg18, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %113 = stablehlo.reshape %112 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %114 = stablehlo.dot_general %109, %111, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_25 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %116 = stablehlo.divide %114, %115 : tensor<2x2x8x8xf32>
    %cst_26 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %117:3 = call @_where(%9, %116, %cst_26) : (tensor<8x8xi1>, tensor<2x2x8x8xf32>, tensor<f32>) -> (tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>)
    %cst_27 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %118 = stablehlo.reduce(%117#0 init: %cst_27) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %119 = stablehlo.reshape %118 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %121 = stablehlo.compare EQ, %117#0, %120, FLOAT : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xi1>
    %122 = stablehlo.convert %121 : (tensor<2x2x8x8xi1>) -> tensor<2x2x8x8xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %123 = stablehlo.reduce(%122 init: %cst_28) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %cst_29 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %124 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %125 = stablehlo.maximum %124, %118 : tensor<2x2x8xf32>
    %126 = stablehlo.compare EQ, %118, %125, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_30 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %127 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %129 = stablehlo.select %126, %127, %128 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %cst_32 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %131 = stablehlo.compare EQ, %130, %125, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_33 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_34 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %133 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %134 = stablehlo.select %131, %132, %133 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %135 = stablehlo.divide %129, %134 : tensor<2x2x8xf32>
    %136 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %138 = stablehlo.subtract %117#0, %137 : tensor<2x2x8x8xf32>
    %139 = stablehlo.exponential %138 : tensor<2x2x8x8xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %140 = stablehlo.reduce(%139 init: %cst_35) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %141 = stablehlo.broadcast_in_dim %140, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %142 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %143 = stablehlo.divide %139, %142 : tensor<2x2x8x8xf32>
    %144 = stablehlo.multiply %141, %141 : tensor<2x2x8x1xf32>
    %cst_36 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x2x8x1xf32>
    %146 = stablehlo.divide %145, %144 : tensor<2x2x8x1xf32>
    %147 = stablehlo.dot_general %113, %143, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %148 = stablehlo.transpose %147, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %149 = stablehlo.reshape %148 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %150 = stablehlo.dot_general %149, %arg15, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %151 = stablehlo.add %91, %150 : tensor<16x16xf32>
    %152 = stablehlo.multiply %151, %151 : tensor<16x16xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %153 = stablehlo.reduce(%152 init: %cst_37) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %154 = stablehlo.broadcast_in_dim %153, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_38 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %155 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %156 = stablehlo.divide %154, %155 : tensor<16x1xf32>
    %cst_39 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %157 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %158 = stablehlo.add %156, %157 : tensor<16x1xf32>
    %159 = stablehlo.rsqrt %158 : tensor<16x1xf32>
    %160 = stablehlo.divide %159, %158 : tensor<16x1xf32>
    %cst_40 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %161 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %162 = stablehlo.multiply %161, %160 : tensor<16x1xf32>
    %163 = stablehlo.broadcast_in_dim %159, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %164 = stablehlo.multiply %151, %163 : tensor<16x16xf32>
    %165 = stablehlo.broadcast_in_dim %arg14, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %167 = stablehlo.multiply %164, %166 : tensor<16x16xf32>
    %168 = stablehlo.dot_general %167, %arg11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %169:3 = call @silu(%168) : (tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>)
    %170 = stablehlo.dot_general %167, %arg17, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %171 = stablehlo.multiply %169#0, %170 : tensor<16x32xf32>
    %172 = stablehlo.dot_general %171, %arg10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
    %173 = stablehlo.add %151, %172 : tensor<16x16xf32>
    %174 = stablehlo.multiply %173, %173 : tensor<16x16xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %175 = stablehlo.reduce(%174 init: %cst_41) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %176 = stablehlo.broadcast_in_dim %175, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_42 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %178 = stablehlo.divide %176, %177 : tensor<16x1xf32>
    %cst_43 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %179 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %180 = stablehlo.add %178, %179 : tensor<16x1xf32>
    %181 = stablehlo.rsqrt %180 : tensor<16x1xf32>
    %182 = stablehlo.divide %181, %180 : tensor<16x1xf32>
    %cst_44 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %183 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %184 = stablehlo.multiply %183, %182 : tensor<16x1xf32>
    %185 = stablehlo.broadcast_in_dim %181, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %186 = stablehlo.multiply %173, %185 : tensor<16x16xf32>
    %187 = stablehlo.broadcast_in_dim %arg22, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %188 = stablehlo.broadcast_in_dim %187, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %189 = stablehlo.multiply %186, %188 : tensor<16x16xf32>
    %190 = stablehlo.dot_general %189, %arg25, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %191 = stablehlo.reshape %190 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %192 = stablehlo.dot_general %189, %arg21, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %193 = stablehlo.reshape %192 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %194 = stablehlo.dot_general %189, %arg27, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %195 = stablehlo.reshape %194 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %196 = stablehlo.dot_general %191, %193, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_45 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %197 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %198 = stablehlo.divide %196, %197 : tensor<2x2x8x8xf32>
    %cst_46 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %199:3 = call @_where(%9, %198, %cst_46) : (tensor<8x8xi1>, tensor<2x2x8x8xf32>, tensor<f32>) -> (tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>)
    %cst_47 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %200 = stablehlo.reduce(%199#0 init: %cst_47) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %201 = stablehlo.reshape %200 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %202 = stablehlo.broadcast_in_dim %201, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %203 = stablehlo.compare EQ, %199#0, %202, FLOAT : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xi1>
    %204 = stablehlo.convert %203 : (tensor<2x2x8x8xi1>) -> tensor<2x2x8x8xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %205 = stablehlo.reduce(%204 init: %cst_48) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %cst_49 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %206 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %207 = stablehlo.maximum %206, %200 : tensor<2x2x8xf32>
    %208 = stablehlo.compare EQ, %200, %207, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_50 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %209 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %210 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %211 = stablehlo.select %208, %209, %210 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %cst_52 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %212 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %213 = stablehlo.compare EQ, %212, %207, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_53 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %214 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_54 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %215 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %216 = stablehlo.select %213, %214, %215 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %217 = stablehlo.divide %211, %216 : tensor<2x2x8xf32>
    %218 = stablehlo.broadcast_in_dim %207, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %219 = stablehlo.broadcast_in_dim %218, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %220 = stablehlo.subtract %199#0, %219 : tensor<2x2x8x8xf32>
    %221 = stablehlo.exponential %220 : tensor<2x2x8x8xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %222 = stablehlo.reduce(%221 init: %cst_55) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %223 = stablehlo.broadcast_in_dim %222, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %224 = stablehlo.broadcast_in_dim %223, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %225 = stablehlo.divide %221, %224 : tensor<2x2x8x8xf32>
    %226 = stablehlo.multiply %223, %223 : tensor<2x2x8x1xf32>
    %cst_56 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %227 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<2x2x8x1xf32>
    %228 = stablehlo.divide %227, %226 : tensor<2x2x8x1xf32>
    %229 = stablehlo.dot_general %195, %225, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %230 = stablehlo.transpose %229, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %231 = stablehlo.reshape %230 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %232 = stablehlo.dot_general %231, %arg24, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %233 = stablehlo.add %173, %232 : tensor<16x16xf32>
    %234 = stablehlo.multiply %233, %233 : tensor<16x16xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %235 = stablehlo.reduce(%234 init: %cst_57) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %236 = stablehlo.broadcast_in_dim %235, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_58 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %238 = stablehlo.divide %236, %237 : tensor<16x1xf32>
    %cst_59 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %239 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %240 = stablehlo.add %238, %239 : tensor<16x1xf32>
    %241 = stablehlo.rsqrt %240 : tensor<16x1xf32>
    %242 = stablehlo.divide %241, %240 : tensor<16x1xf32>
    %cst_60 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %243 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %244 = stablehlo.multiply %243, %242 : tensor<16x1xf32>
    %245 = stablehlo.broadcast_in_dim %241, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %246 = stablehlo.multiply %233, %245 : tensor<16x16xf32>
    %247 = stablehlo.broadcast_in_dim %arg23, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %248 = stablehlo.broadcast_in_dim %247, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %249 = stablehlo.multiply %246, %248 : tensor<16x16xf32>
    %250 = stablehlo.dot_general %249, %arg20, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %251:3 = call @silu(%250) : (tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>)
    %252 = stablehlo.dot_general %249, %arg26, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %253 = stablehlo.multiply %251#0, %252 : tensor<16x32xf32>
    %254 = stablehlo.dot_general %253, %arg19, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
    %255 = stablehlo.add %233, %254 : tensor<16x16xf32>
    %256 = stablehlo.multiply %255, %255 : tensor<16x16xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %257 = stablehlo.reduce(%256 init: %cst_61) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %258 = stablehlo.broadcast_in_dim %257, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_62 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %259 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %260 = stablehlo.divide %258, %259 : tensor<16x1xf32>
    %cst_63 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %261 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %262 = stablehlo.add %260, %261 : tensor<16x1xf32>
    %263 = stablehlo.rsqrt %262 : tensor<16x1xf32>
    %264 = stablehlo.divide %263, %262 : tensor<16x1xf32>
    %cst_64 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %265 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %266 = stablehlo.multiply %265, %264 : tensor<16x1xf32>
    %267 = stablehlo.broadcast_in_dim %263, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %268 = stablehlo.multiply %255, %267 : tensor<16x16xf32>
    %269 = stablehlo.broadcast_in_dim %arg31, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %270 = stablehlo.broadcast_in_dim %269, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %271 = stablehlo.multiply %268, %270 : tensor<16x16xf32>
    %272 = stablehlo.dot_general %271, %arg34, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %273 = stablehlo.reshape %272 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %274 = stablehlo.dot_general %271, %arg30, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %275 = stablehlo.reshape %274 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %276 = stablehlo.dot_general %271, %arg36, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %277 = stablehlo.reshape %276 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %278 = stablehlo.dot_general %273, %275, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_65 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %279 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %280 = stablehlo.divide %278, %279 : tensor<2x2x8x8xf32>
    %cst_66 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %281:3 = call @_where(%9, %280, %cst_66) : (tensor<8x8xi1>, tensor<2x2x8x8xf32>, tensor<f32>) -> (tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>)
    %cst_67 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %282 = stablehlo.reduce(%281#0 init: %cst_67) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %283 = stablehlo.reshape %282 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %284 = stablehlo.broadcast_in_dim %283, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %285 = stablehlo.compare EQ, %281#0, %284, FLOAT : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xi1>
    %286 = stablehlo.convert %285 : (tensor<2x2x8x8xi1>) -> tensor<2x2x8x8xf32>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %287 = stablehlo.reduce(%286 init: %cst_68) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %cst_69 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %288 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %289 = stablehlo.maximum %288, %282 : tensor<2x2x8xf32>
    %290 = stablehlo.compare EQ, %282, %289, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_70 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %291 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %292 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %293 = stablehlo.select %290, %291, %292 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %cst_72 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %294 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %295 = stablehlo.compare EQ, %294, %289, FLOAT : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xi1>
    %cst_73 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %296 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %cst_74 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %297 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<2x2x8xf32>
    %298 = stablehlo.select %295, %296, %297 : tensor<2x2x8xi1>, tensor<2x2x8xf32>
    %299 = stablehlo.divide %293, %298 : tensor<2x2x8xf32>
    %300 = stablehlo.broadcast_in_dim %289, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %301 = stablehlo.broadcast_in_dim %300, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %302 = stablehlo.subtract %281#0, %301 : tensor<2x2x8x8xf32>
    %303 = stablehlo.exponential %302 : tensor<2x2x8x8xf32>
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %304 = stablehlo.reduce(%303 init: %cst_75) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %305 = stablehlo.broadcast_in_dim %304, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %306 = stablehlo.broadcast_in_dim %305, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %307 = stablehlo.divide %303, %306 : tensor<2x2x8x8xf32>
    %308 = stablehlo.multiply %305, %305 : tensor<2x2x8x1xf32>
    %cst_76 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %309 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<2x2x8x1xf32>
    %310 = stablehlo.divide %309, %308 : tensor<2x2x8x1xf32>
    %311 = stablehlo.dot_general %277, %307, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x2x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %312 = stablehlo.transpose %311, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %313 = stablehlo.reshape %312 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %314 = stablehlo.dot_general %313, %arg33, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %315 = stablehlo.add %255, %314 : tensor<16x16xf32>
    %316 = stablehlo.multiply %315, %315 : tensor<16x16xf32>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %317 = stablehlo.reduce(%316 init: %cst_77) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %318 = stablehlo.broadcast_in_dim %317, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_78 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %319 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %320 = stablehlo.divide %318, %319 : tensor<16x1xf32>
    %cst_79 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %321 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %322 = stablehlo.add %320, %321 : tensor<16x1xf32>
    %323 = stablehlo.rsqrt %322 : tensor<16x1xf32>
    %324 = stablehlo.divide %323, %322 : tensor<16x1xf32>
    %cst_80 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %325 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %326 = stablehlo.multiply %325, %324 : tensor<16x1xf32>
    %327 = stablehlo.broadcast_in_dim %323, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %328 = stablehlo.multiply %315, %327 : tensor<16x16xf32>
    %329 = stablehlo.broadcast_in_dim %arg32, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %330 = stablehlo.broadcast_in_dim %329, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %331 = stablehlo.multiply %328, %330 : tensor<16x16xf32>
    %332 = stablehlo.dot_general %331, %arg29, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %333:3 = call @silu(%332) : (tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>)
    %334 = stablehlo.dot_general %331, %arg35, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %335 = stablehlo.multiply %333#0, %334 : tensor<16x32xf32>
    %336 = stablehlo.dot_general %335, %arg28, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
    %337 = stablehlo.add %315, %336 : tensor<16x16xf32>
    %338 = stablehlo.multiply %337, %337 : tensor<16x16xf32>
    %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %339 = stablehlo.reduce(%338 init: %cst_81) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %340 = stablehlo.broadcast_in_dim %339, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %cst_82 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %341 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %342 = stablehlo.divide %340, %341 : tensor<16x1xf32>
    %cst_83 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %343 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %344 = stablehlo.add %342, %343 : tensor<16x1xf32>
    %345 = stablehlo.rsqrt %344 : tensor<16x1xf32>
    %346 = stablehlo.divide %345, %344 : tensor<16x1xf32>
    %cst_84 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %347 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %348 = stablehlo.multiply %347, %346 : tensor<16x1xf32>
    %349 = stablehlo.broadcast_in_dim %345, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %350 = stablehlo.multiply %337, %349 : tensor<16x16xf32>
    %351 = stablehlo.broadcast_in_dim %arg37, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %352 = stablehlo.broadcast_in_dim %351, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %353 = stablehlo.multiply %350, %352 : tensor<16x16xf32>
    %354 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<64x16xf32>) -> tensor<16x64xf32>
    %355 = stablehlo.dot_general %353, %354, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
    %356:3 = call @log_softmax(%355) : (tensor<16x64xf32>) -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x1xf32>)
    %357 = stablehlo.reshape %arg116 : (tensor<2x8xi32>) -> tensor<16x1xi32>
    %358:2 = call @take_along_axis(%356#0, %357) : (tensor<16x64xf32>, tensor<16x1xi32>) -> (tensor<16x1xf32>, tensor<16x1x1xi32>)
    %cst_85 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %359 = stablehlo.reduce(%358#0 init: %cst_85) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_86 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %360 = stablehlo.divide %359, %cst_86 : tensor<f32>
    %361 = stablehlo.negate %360 : tensor<f32>
    %cst_87 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %362 = stablehlo.negate %cst_87 : tensor<f32>
    %cst_88 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %363 = stablehlo.divide %362, %cst_88 : tensor<f32>
    %364 = stablehlo.broadcast_in_dim %363, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %365 = call @take_along_axis_0(%358#1, %364) : (tensor<16x1x1xi32>, tensor<16x1xf32>) -> tensor<16x64xf32>
    %366 = call @log_softmax_1(%356#1, %356#2, %365) : (tensor<16x64xf32>, tensor<16x1xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
    %367 = stablehlo.dot_general %366, %353, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
    %368 = stablehlo.transpose %367, dims = [1, 0] : (tensor<64x16xf32>) -> tensor<16x64xf32>
    %369 = stablehlo.dot_general %366, %354, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x16xf32>
    %370 = stablehlo.transpose %368, dims = [1, 0] : (tensor<16x64xf32>) -> tensor<64x16xf32>
    %371 = stablehlo.multiply %350, %369 : tensor<16x16xf32>
    %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %372 = stablehlo.reduce(%371 init: %cst_89) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %373 = stablehlo.reshape %372 : (tensor<16xf32>) -> tensor<1x16xf32>
    %374 = stablehlo.broadcast_in_dim %351, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %375 = stablehlo.multiply %369, %374 : tensor<16x16xf32>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %376 = stablehlo.reduce(%373 init: %cst_90) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %377 = stablehlo.multiply %337, %375 : tensor<16x16xf32>
    %cst_91 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %378 = stablehlo.reduce(%377 init: %cst_91) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %379 = stablehlo.reshape %378 : (tensor<16xf32>) -> tensor<16x1xf32>
    %380 = stablehlo.broadcast_in_dim %345, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %381 = stablehlo.multiply %375, %380 : tensor<16x16xf32>
    %382 = stablehlo.multiply %379, %348 : tensor<16x1xf32>
    %cst_92 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %383 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %384 = stablehlo.divide %382, %383 : tensor<16x1xf32>
    %cst_93 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %385 = stablehlo.reduce(%384 init: %cst_93) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %386 = stablehlo.broadcast_in_dim %385, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %387 = stablehlo.multiply %337, %386 : tensor<16x16xf32>
    %388 = stablehlo.add %381, %387 : tensor<16x16xf32>
    %389 = stablehlo.multiply %386, %337 : tensor<16x16xf32>
    %390 = stablehlo.add %388, %389 : tensor<16x16xf32>
    %391 = stablehlo.dot_general %390, %335, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %392 = stablehlo.transpose %391, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %393 = stablehlo.dot_general %390, %arg28, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<32x16xf32>) -> tensor<16x32xf32>
    %394 = stablehlo.multiply %333#0, %393 : tensor<16x32xf32>
    %395 = stablehlo.multiply %393, %334 : tensor<16x32xf32>
    %396 = stablehlo.dot_general %394, %331, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %397 = stablehlo.transpose %396, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %398 = stablehlo.dot_general %394, %arg35, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %399 = call @silu_2(%333#1, %333#2, %332, %395) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %400 = stablehlo.dot_general %399, %331, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %401 = stablehlo.transpose %400, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %402 = stablehlo.dot_general %399, %arg29, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %403 = stablehlo.add %398, %402 : tensor<16x16xf32>
    %404 = stablehlo.multiply %328, %403 : tensor<16x16xf32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %405 = stablehlo.reduce(%404 init: %cst_94) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %406 = stablehlo.reshape %405 : (tensor<16xf32>) -> tensor<1x16xf32>
    %407 = stablehlo.broadcast_in_dim %329, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %408 = stablehlo.multiply %403, %407 : tensor<16x16xf32>
    %cst_95 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %409 = stablehlo.reduce(%406 init: %cst_95) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %410 = stablehlo.multiply %315, %408 : tensor<16x16xf32>
    %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %411 = stablehlo.reduce(%410 init: %cst_96) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %412 = stablehlo.reshape %411 : (tensor<16xf32>) -> tensor<16x1xf32>
    %413 = stablehlo.broadcast_in_dim %323, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %414 = stablehlo.multiply %408, %413 : tensor<16x16xf32>
    %415 = stablehlo.add %390, %414 : tensor<16x16xf32>
    %416 = stablehlo.multiply %412, %326 : tensor<16x1xf32>
    %cst_97 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %417 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %418 = stablehlo.divide %416, %417 : tensor<16x1xf32>
    %cst_98 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %419 = stablehlo.reduce(%418 init: %cst_98) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %420 = stablehlo.broadcast_in_dim %419, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %421 = stablehlo.multiply %315, %420 : tensor<16x16xf32>
    %422 = stablehlo.add %415, %421 : tensor<16x16xf32>
    %423 = stablehlo.multiply %420, %315 : tensor<16x16xf32>
    %424 = stablehlo.add %422, %423 : tensor<16x16xf32>
    %425 = stablehlo.dot_general %424, %313, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %426 = stablehlo.transpose %425, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %427 = stablehlo.dot_general %424, %arg33, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %428 = stablehlo.reshape %427 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %429 = stablehlo.transpose %428, dims = [0, 2, 3, 1] : (tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %430 = stablehlo.dot_general %429, %277, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %431 = stablehlo.dot_general %429, %307, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %432 = stablehlo.transpose %431, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %433 = stablehlo.broadcast_in_dim %310, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %434 = stablehlo.multiply %430, %433 : tensor<2x2x8x8xf32>
    %435 = stablehlo.multiply %434, %303 : tensor<2x2x8x8xf32>
    %cst_99 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %436 = stablehlo.reduce(%435 init: %cst_99) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %437 = stablehlo.reshape %436 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %438 = stablehlo.negate %437 : tensor<2x2x8x1xf32>
    %439 = stablehlo.broadcast_in_dim %305, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %440 = stablehlo.divide %430, %439 : tensor<2x2x8x8xf32>
    %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %441 = stablehlo.reduce(%438 init: %cst_100) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x1xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %442 = stablehlo.broadcast_in_dim %441, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x8xf32>
    %443 = stablehlo.add %440, %442 : tensor<2x2x8x8xf32>
    %444 = stablehlo.multiply %443, %303 : tensor<2x2x8x8xf32>
    %445 = call @_where_3(%281#1, %281#2, %444) : (tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_101 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %446 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %447 = stablehlo.divide %445, %446 : tensor<2x2x8x8xf32>
    %448 = stablehlo.dot_general %447, %273, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %449 = stablehlo.transpose %448, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %450 = stablehlo.dot_general %447, %275, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %451 = stablehlo.transpose %450, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %452 = stablehlo.reshape %432 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %453 = stablehlo.dot_general %452, %271, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %454 = stablehlo.transpose %453, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %455 = stablehlo.dot_general %452, %arg36, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %456 = stablehlo.reshape %449 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %457 = stablehlo.dot_general %456, %271, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %458 = stablehlo.transpose %457, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %459 = stablehlo.dot_general %456, %arg30, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %460 = stablehlo.add %455, %459 : tensor<16x16xf32>
    %461 = stablehlo.reshape %451 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %462 = stablehlo.dot_general %461, %271, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %463 = stablehlo.transpose %462, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %464 = stablehlo.dot_general %461, %arg34, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %465 = stablehlo.add %460, %464 : tensor<16x16xf32>
    %466 = stablehlo.multiply %268, %465 : tensor<16x16xf32>
    %cst_102 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %467 = stablehlo.reduce(%466 init: %cst_102) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %468 = stablehlo.reshape %467 : (tensor<16xf32>) -> tensor<1x16xf32>
    %469 = stablehlo.broadcast_in_dim %269, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %470 = stablehlo.multiply %465, %469 : tensor<16x16xf32>
    %cst_103 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %471 = stablehlo.reduce(%468 init: %cst_103) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %472 = stablehlo.multiply %255, %470 : tensor<16x16xf32>
    %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %473 = stablehlo.reduce(%472 init: %cst_104) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %474 = stablehlo.reshape %473 : (tensor<16xf32>) -> tensor<16x1xf32>
    %475 = stablehlo.broadcast_in_dim %263, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %476 = stablehlo.multiply %470, %475 : tensor<16x16xf32>
    %477 = stablehlo.add %424, %476 : tensor<16x16xf32>
    %478 = stablehlo.multiply %474, %266 : tensor<16x1xf32>
    %cst_105 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %479 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %480 = stablehlo.divide %478, %479 : tensor<16x1xf32>
    %cst_106 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %481 = stablehlo.reduce(%480 init: %cst_106) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %482 = stablehlo.broadcast_in_dim %481, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %483 = stablehlo.multiply %255, %482 : tensor<16x16xf32>
    %484 = stablehlo.add %477, %483 : tensor<16x16xf32>
    %485 = stablehlo.multiply %482, %255 : tensor<16x16xf32>
    %486 = stablehlo.add %484, %485 : tensor<16x16xf32>
    %487 = stablehlo.dot_general %486, %253, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %488 = stablehlo.transpose %487, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %489 = stablehlo.dot_general %486, %arg19, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<32x16xf32>) -> tensor<16x32xf32>
    %490 = stablehlo.multiply %251#0, %489 : tensor<16x32xf32>
    %491 = stablehlo.multiply %489, %252 : tensor<16x32xf32>
    %492 = stablehlo.dot_general %490, %249, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %493 = stablehlo.transpose %492, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %494 = stablehlo.dot_general %490, %arg26, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %495 = call @silu_2(%251#1, %251#2, %250, %491) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %496 = stablehlo.dot_general %495, %249, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %497 = stablehlo.transpose %496, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %498 = stablehlo.dot_general %495, %arg20, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %499 = stablehlo.add %494, %498 : tensor<16x16xf32>
    %500 = stablehlo.multiply %246, %499 : tensor<16x16xf32>
    %cst_107 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %501 = stablehlo.reduce(%500 init: %cst_107) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %502 = stablehlo.reshape %501 : (tensor<16xf32>) -> tensor<1x16xf32>
    %503 = stablehlo.broadcast_in_dim %247, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %504 = stablehlo.multiply %499, %503 : tensor<16x16xf32>
    %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %505 = stablehlo.reduce(%502 init: %cst_108) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %506 = stablehlo.multiply %233, %504 : tensor<16x16xf32>
    %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %507 = stablehlo.reduce(%506 init: %cst_109) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %508 = stablehlo.reshape %507 : (tensor<16xf32>) -> tensor<16x1xf32>
    %509 = stablehlo.broadcast_in_dim %241, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %510 = stablehlo.multiply %504, %509 : tensor<16x16xf32>
    %511 = stablehlo.add %486, %510 : tensor<16x16xf32>
    %512 = stablehlo.multiply %508, %244 : tensor<16x1xf32>
    %cst_110 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %513 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %514 = stablehlo.divide %512, %513 : tensor<16x1xf32>
    %cst_111 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %515 = stablehlo.reduce(%514 init: %cst_111) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %516 = stablehlo.broadcast_in_dim %515, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %517 = stablehlo.multiply %233, %516 : tensor<16x16xf32>
    %518 = stablehlo.add %511, %517 : tensor<16x16xf32>
    %519 = stablehlo.multiply %516, %233 : tensor<16x16xf32>
    %520 = stablehlo.add %518, %519 : tensor<16x16xf32>
    %521 = stablehlo.dot_general %520, %231, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %522 = stablehlo.transpose %521, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %523 = stablehlo.dot_general %520, %arg24, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %524 = stablehlo.reshape %523 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %525 = stablehlo.transpose %524, dims = [0, 2, 3, 1] : (tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %526 = stablehlo.dot_general %525, %195, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %527 = stablehlo.dot_general %525, %225, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %528 = stablehlo.transpose %527, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %529 = stablehlo.broadcast_in_dim %228, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %530 = stablehlo.multiply %526, %529 : tensor<2x2x8x8xf32>
    %531 = stablehlo.multiply %530, %221 : tensor<2x2x8x8xf32>
    %cst_112 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %532 = stablehlo.reduce(%531 init: %cst_112) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %533 = stablehlo.reshape %532 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %534 = stablehlo.negate %533 : tensor<2x2x8x1xf32>
    %535 = stablehlo.broadcast_in_dim %223, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %536 = stablehlo.divide %526, %535 : tensor<2x2x8x8xf32>
    %cst_113 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %537 = stablehlo.reduce(%534 init: %cst_113) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x1xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %538 = stablehlo.broadcast_in_dim %537, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x8xf32>
    %539 = stablehlo.add %536, %538 : tensor<2x2x8x8xf32>
    %540 = stablehlo.multiply %539, %221 : tensor<2x2x8x8xf32>
    %541 = call @_where_3(%199#1, %199#2, %540) : (tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_114 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %542 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %543 = stablehlo.divide %541, %542 : tensor<2x2x8x8xf32>
    %544 = stablehlo.dot_general %543, %191, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %545 = stablehlo.transpose %544, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %546 = stablehlo.dot_general %543, %193, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %547 = stablehlo.transpose %546, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %548 = stablehlo.reshape %528 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %549 = stablehlo.dot_general %548, %189, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %550 = stablehlo.transpose %549, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %551 = stablehlo.dot_general %548, %arg27, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %552 = stablehlo.reshape %545 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %553 = stablehlo.dot_general %552, %189, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %554 = stablehlo.transpose %553, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %555 = stablehlo.dot_general %552, %arg21, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %556 = stablehlo.add %551, %555 : tensor<16x16xf32>
    %557 = stablehlo.reshape %547 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %558 = stablehlo.dot_general %557, %189, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %559 = stablehlo.transpose %558, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %560 = stablehlo.dot_general %557, %arg25, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %561 = stablehlo.add %556, %560 : tensor<16x16xf32>
    %562 = stablehlo.multiply %186, %561 : tensor<16x16xf32>
    %cst_115 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %563 = stablehlo.reduce(%562 init: %cst_115) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %564 = stablehlo.reshape %563 : (tensor<16xf32>) -> tensor<1x16xf32>
    %565 = stablehlo.broadcast_in_dim %187, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %566 = stablehlo.multiply %561, %565 : tensor<16x16xf32>
    %cst_116 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %567 = stablehlo.reduce(%564 init: %cst_116) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %568 = stablehlo.multiply %173, %566 : tensor<16x16xf32>
    %cst_117 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %569 = stablehlo.reduce(%568 init: %cst_117) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %570 = stablehlo.reshape %569 : (tensor<16xf32>) -> tensor<16x1xf32>
    %571 = stablehlo.broadcast_in_dim %181, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %572 = stablehlo.multiply %566, %571 : tensor<16x16xf32>
    %573 = stablehlo.add %520, %572 : tensor<16x16xf32>
    %574 = stablehlo.multiply %570, %184 : tensor<16x1xf32>
    %cst_118 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %575 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %576 = stablehlo.divide %574, %575 : tensor<16x1xf32>
    %cst_119 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %577 = stablehlo.reduce(%576 init: %cst_119) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %578 = stablehlo.broadcast_in_dim %577, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %579 = stablehlo.multiply %173, %578 : tensor<16x16xf32>
    %580 = stablehlo.add %573, %579 : tensor<16x16xf32>
    %581 = stablehlo.multiply %578, %173 : tensor<16x16xf32>
    %582 = stablehlo.add %580, %581 : tensor<16x16xf32>
    %583 = stablehlo.dot_general %582, %171, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %584 = stablehlo.transpose %583, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %585 = stablehlo.dot_general %582, %arg10, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<32x16xf32>) -> tensor<16x32xf32>
    %586 = stablehlo.multiply %169#0, %585 : tensor<16x32xf32>
    %587 = stablehlo.multiply %585, %170 : tensor<16x32xf32>
    %588 = stablehlo.dot_general %586, %167, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %589 = stablehlo.transpose %588, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %590 = stablehlo.dot_general %586, %arg17, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %591 = call @silu_2(%169#1, %169#2, %168, %587) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %592 = stablehlo.dot_general %591, %167, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %593 = stablehlo.transpose %592, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %594 = stablehlo.dot_general %591, %arg11, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %595 = stablehlo.add %590, %594 : tensor<16x16xf32>
    %596 = stablehlo.multiply %164, %595 : tensor<16x16xf32>
    %cst_120 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %597 = stablehlo.reduce(%596 init: %cst_120) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %598 = stablehlo.reshape %597 : (tensor<16xf32>) -> tensor<1x16xf32>
    %599 = stablehlo.broadcast_in_dim %165, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %600 = stablehlo.multiply %595, %599 : tensor<16x16xf32>
    %cst_121 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %601 = stablehlo.reduce(%598 init: %cst_121) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %602 = stablehlo.multiply %151, %600 : tensor<16x16xf32>
    %cst_122 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %603 = stablehlo.reduce(%602 init: %cst_122) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %604 = stablehlo.reshape %603 : (tensor<16xf32>) -> tensor<16x1xf32>
    %605 = stablehlo.broadcast_in_dim %159, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %606 = stablehlo.multiply %600, %605 : tensor<16x16xf32>
    %607 = stablehlo.add %582, %606 : tensor<16x16xf32>
    %608 = stablehlo.multiply %604, %162 : tensor<16x1xf32>
    %cst_123 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %609 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %610 = stablehlo.divide %608, %609 : tensor<16x1xf32>
    %cst_124 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %611 = stablehlo.reduce(%610 init: %cst_124) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %612 = stablehlo.broadcast_in_dim %611, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %613 = stablehlo.multiply %151, %612 : tensor<16x16xf32>
    %614 = stablehlo.add %607, %613 : tensor<16x16xf32>
    %615 = stablehlo.multiply %612, %151 : tensor<16x16xf32>
    %616 = stablehlo.add %614, %615 : tensor<16x16xf32>
    %617 = stablehlo.dot_general %616, %149, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %618 = stablehlo.transpose %617, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %619 = stablehlo.dot_general %616, %arg15, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %620 = stablehlo.reshape %619 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %621 = stablehlo.transpose %620, dims = [0, 2, 3, 1] : (tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %622 = stablehlo.dot_general %621, %113, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %623 = stablehlo.dot_general %621, %143, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %624 = stablehlo.transpose %623, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %625 = stablehlo.broadcast_in_dim %146, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %626 = stablehlo.multiply %622, %625 : tensor<2x2x8x8xf32>
    %627 = stablehlo.multiply %626, %139 : tensor<2x2x8x8xf32>
    %cst_125 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %628 = stablehlo.reduce(%627 init: %cst_125) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %629 = stablehlo.reshape %628 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %630 = stablehlo.negate %629 : tensor<2x2x8x1xf32>
    %631 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %632 = stablehlo.divide %622, %631 : tensor<2x2x8x8xf32>
    %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %633 = stablehlo.reduce(%630 init: %cst_126) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x1xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %634 = stablehlo.broadcast_in_dim %633, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x8xf32>
    %635 = stablehlo.add %632, %634 : tensor<2x2x8x8xf32>
    %636 = stablehlo.multiply %635, %139 : tensor<2x2x8x8xf32>
    %637 = call @_where_3(%117#1, %117#2, %636) : (tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_127 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %638 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %639 = stablehlo.divide %637, %638 : tensor<2x2x8x8xf32>
    %640 = stablehlo.dot_general %639, %109, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %641 = stablehlo.transpose %640, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %642 = stablehlo.dot_general %639, %111, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %643 = stablehlo.transpose %642, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %644 = stablehlo.reshape %624 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %645 = stablehlo.dot_general %644, %107, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %646 = stablehlo.transpose %645, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %647 = stablehlo.dot_general %644, %arg18, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %648 = stablehlo.reshape %641 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %649 = stablehlo.dot_general %648, %107, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %650 = stablehlo.transpose %649, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %651 = stablehlo.dot_general %648, %arg12, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %652 = stablehlo.add %647, %651 : tensor<16x16xf32>
    %653 = stablehlo.reshape %643 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %654 = stablehlo.dot_general %653, %107, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %655 = stablehlo.transpose %654, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %656 = stablehlo.dot_general %653, %arg16, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %657 = stablehlo.add %652, %656 : tensor<16x16xf32>
    %658 = stablehlo.multiply %104, %657 : tensor<16x16xf32>
    %cst_128 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %659 = stablehlo.reduce(%658 init: %cst_128) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %660 = stablehlo.reshape %659 : (tensor<16xf32>) -> tensor<1x16xf32>
    %661 = stablehlo.broadcast_in_dim %105, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %662 = stablehlo.multiply %657, %661 : tensor<16x16xf32>
    %cst_129 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %663 = stablehlo.reduce(%660 init: %cst_129) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %664 = stablehlo.multiply %91, %662 : tensor<16x16xf32>
    %cst_130 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %665 = stablehlo.reduce(%664 init: %cst_130) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %666 = stablehlo.reshape %665 : (tensor<16xf32>) -> tensor<16x1xf32>
    %667 = stablehlo.broadcast_in_dim %99, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %668 = stablehlo.multiply %662, %667 : tensor<16x16xf32>
    %669 = stablehlo.add %616, %668 : tensor<16x16xf32>
    %670 = stablehlo.multiply %666, %102 : tensor<16x1xf32>
    %cst_131 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %671 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %672 = stablehlo.divide %670, %671 : tensor<16x1xf32>
    %cst_132 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %673 = stablehlo.reduce(%672 init: %cst_132) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %674 = stablehlo.broadcast_in_dim %673, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %675 = stablehlo.multiply %91, %674 : tensor<16x16xf32>
    %676 = stablehlo.add %669, %675 : tensor<16x16xf32>
    %677 = stablehlo.multiply %674, %91 : tensor<16x16xf32>
    %678 = stablehlo.add %676, %677 : tensor<16x16xf32>
    %679 = stablehlo.dot_general %678, %89, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %680 = stablehlo.transpose %679, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %681 = stablehlo.dot_general %678, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<32x16xf32>) -> tensor<16x32xf32>
    %682 = stablehlo.multiply %87#0, %681 : tensor<16x32xf32>
    %683 = stablehlo.multiply %681, %88 : tensor<16x32xf32>
    %684 = stablehlo.dot_general %682, %85, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %685 = stablehlo.transpose %684, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %686 = stablehlo.dot_general %682, %arg8, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %687 = call @silu_2(%87#1, %87#2, %86, %683) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %688 = stablehlo.dot_general %687, %85, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %689 = stablehlo.transpose %688, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %690 = stablehlo.dot_general %687, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %691 = stablehlo.add %686, %690 : tensor<16x16xf32>
    %692 = stablehlo.multiply %82, %691 : tensor<16x16xf32>
    %cst_133 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %693 = stablehlo.reduce(%692 init: %cst_133) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %694 = stablehlo.reshape %693 : (tensor<16xf32>) -> tensor<1x16xf32>
    %695 = stablehlo.broadcast_in_dim %83, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %696 = stablehlo.multiply %691, %695 : tensor<16x16xf32>
    %cst_134 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %697 = stablehlo.reduce(%694 init: %cst_134) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %698 = stablehlo.multiply %69, %696 : tensor<16x16xf32>
    %cst_135 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %699 = stablehlo.reduce(%698 init: %cst_135) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %700 = stablehlo.reshape %699 : (tensor<16xf32>) -> tensor<16x1xf32>
    %701 = stablehlo.broadcast_in_dim %77, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %702 = stablehlo.multiply %696, %701 : tensor<16x16xf32>
    %703 = stablehlo.add %678, %702 : tensor<16x16xf32>
    %704 = stablehlo.multiply %700, %80 : tensor<16x1xf32>
    %cst_136 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %705 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %706 = stablehlo.divide %704, %705 : tensor<16x1xf32>
    %cst_137 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %707 = stablehlo.reduce(%706 init: %cst_137) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %708 = stablehlo.broadcast_in_dim %707, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %709 = stablehlo.multiply %69, %708 : tensor<16x16xf32>
    %710 = stablehlo.add %703, %709 : tensor<16x16xf32>
    %711 = stablehlo.multiply %708, %69 : tensor<16x16xf32>
    %712 = stablehlo.add %710, %711 : tensor<16x16xf32>
    %713 = stablehlo.dot_general %712, %67, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %714 = stablehlo.transpose %713, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %715 = stablehlo.dot_general %712, %arg6, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %716 = stablehlo.reshape %715 : (tensor<16x16xf32>) -> tensor<2x8x2x8xf32>
    %717 = stablehlo.transpose %716, dims = [0, 2, 3, 1] : (tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %718 = stablehlo.dot_general %717, %31, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %719 = stablehlo.dot_general %717, %61, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %720 = stablehlo.transpose %719, dims = [0, 3, 1, 2] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %721 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %722 = stablehlo.multiply %718, %721 : tensor<2x2x8x8xf32>
    %723 = stablehlo.multiply %722, %57 : tensor<2x2x8x8xf32>
    %cst_138 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %724 = stablehlo.reduce(%723 init: %cst_138) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x8xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %725 = stablehlo.reshape %724 : (tensor<2x2x8xf32>) -> tensor<2x2x8x1xf32>
    %726 = stablehlo.negate %725 : tensor<2x2x8x1xf32>
    %727 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2, 3] : (tensor<2x2x8x1xf32>) -> tensor<2x2x8x8xf32>
    %728 = stablehlo.divide %718, %727 : tensor<2x2x8x8xf32>
    %cst_139 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %729 = stablehlo.reduce(%726 init: %cst_139) applies stablehlo.add across dimensions = [3] : (tensor<2x2x8x1xf32>, tensor<f32>) -> tensor<2x2x8xf32>
    %730 = stablehlo.broadcast_in_dim %729, dims = [0, 1, 2] : (tensor<2x2x8xf32>) -> tensor<2x2x8x8xf32>
    %731 = stablehlo.add %728, %730 : tensor<2x2x8x8xf32>
    %732 = stablehlo.multiply %731, %57 : tensor<2x2x8x8xf32>
    %733 = call @_where_3(%35#1, %35#2, %732) : (tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
    %cst_140 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %734 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %735 = stablehlo.divide %733, %734 : tensor<2x2x8x8xf32>
    %736 = stablehlo.dot_general %735, %27, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %737 = stablehlo.transpose %736, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %738 = stablehlo.dot_general %735, %29, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x8x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x2x8x8xf32>
    %739 = stablehlo.transpose %738, dims = [0, 2, 1, 3] : (tensor<2x2x8x8xf32>) -> tensor<2x8x2x8xf32>
    %740 = stablehlo.reshape %720 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %741 = stablehlo.dot_general %740, %25, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %742 = stablehlo.transpose %741, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %743 = stablehlo.dot_general %740, %arg9, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %744 = stablehlo.reshape %737 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %745 = stablehlo.dot_general %744, %25, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %746 = stablehlo.transpose %745, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %747 = stablehlo.dot_general %744, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %748 = stablehlo.add %743, %747 : tensor<16x16xf32>
    %749 = stablehlo.reshape %739 : (tensor<2x8x2x8xf32>) -> tensor<16x16xf32>
    %750 = stablehlo.dot_general %749, %25, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %751 = stablehlo.transpose %750, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %752 = stablehlo.dot_general %749, %arg7, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %753 = stablehlo.add %748, %752 : tensor<16x16xf32>
    %754 = stablehlo.multiply %22, %753 : tensor<16x16xf32>
    %cst_141 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %755 = stablehlo.reduce(%754 init: %cst_141) applies stablehlo.add across dimensions = [0] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %756 = stablehlo.reshape %755 : (tensor<16xf32>) -> tensor<1x16xf32>
    %757 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<16x16xf32>
    %758 = stablehlo.multiply %753, %757 : tensor<16x16xf32>
    %cst_142 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %759 = stablehlo.reduce(%756 init: %cst_142) applies stablehlo.add across dimensions = [0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %760 = stablehlo.multiply %7, %758 : tensor<16x16xf32>
    %cst_143 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %761 = stablehlo.reduce(%760 init: %cst_143) applies stablehlo.add across dimensions = [1] : (tensor<16x16xf32>, tensor<f32>) -> tensor<16xf32>
    %762 = stablehlo.reshape %761 : (tensor<16xf32>) -> tensor<16x1xf32>
    %763 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x16xf32>
    %764 = stablehlo.multiply %758, %763 : tensor<16x16xf32>
    %765 = stablehlo.add %712, %764 : tensor<16x16xf32>
    %766 = stablehlo.multiply %762, %20 : tensor<16x1xf32>
    %cst_144 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %767 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %768 = stablehlo.divide %766, %767 : tensor<16x1xf32>
    %cst_145 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %769 = stablehlo.reduce(%768 init: %cst_145) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %770 = stablehlo.broadcast_in_dim %769, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %771 = stablehlo.multiply %7, %770 : tensor<16x16xf32>
    %772 = stablehlo.add %765, %771 : tensor<16x16xf32>
    %773 = stablehlo.multiply %770, %7 : tensor<16x16xf32>
    %774 = stablehlo.add %772, %773 : tensor<16x16xf32>
    %cst_146 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %775 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %776 = "stablehlo.scatter"(%775, %6, %774) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg117: tensor<f32>, %arg118: tensor<f32>):
      %1621 = stablehlo.add %arg117, %arg118 : tensor<f32>
      stablehlo.return %1621 : tensor<f32>
    }) : (tensor<64x16xf32>, tensor<16x1xi32>, tensor<16x16xf32>) -> tensor<64x16xf32>
    %777 = stablehlo.add %370, %776 : tensor<64x16xf32>
    %c_147 = stablehlo.constant dense<1> : tensor<i32>
    %778 = stablehlo.add %arg114, %c_147 : tensor<i32>
    %779 = stablehlo.convert %778 : (tensor<i32>) -> tensor<f32>
    %cst_148 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %780 = stablehlo.power %cst_148, %779 : tensor<f32>
    %cst_149 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %781 = stablehlo.subtract %cst_149, %780 : tensor<f32>
    %782 = stablehlo.convert %778 : (tensor<i32>) -> tensor<f32>
    %cst_150 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %783 = stablehlo.power %cst_150, %782 : tensor<f32>
    %cst_151 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %784 = stablehlo.subtract %cst_151, %783 : tensor<f32>
    %cst_152 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %785 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %786 = stablehlo.multiply %785, %arg38 : tensor<64x16xf32>
    %cst_153 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %787 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %788 = stablehlo.multiply %787, %777 : tensor<64x16xf32>
    %789 = stablehlo.add %786, %788 : tensor<64x16xf32>
    %cst_154 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %790 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %791 = stablehlo.multiply %790, %arg39 : tensor<32x16xf32>
    %cst_155 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %792 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %793 = stablehlo.multiply %792, %680 : tensor<32x16xf32>
    %794 = stablehlo.add %791, %793 : tensor<32x16xf32>
    %cst_156 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %795 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %796 = stablehlo.multiply %795, %arg40 : tensor<16x32xf32>
    %cst_157 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %797 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %798 = stablehlo.multiply %797, %689 : tensor<16x32xf32>
    %799 = stablehlo.add %796, %798 : tensor<16x32xf32>
    %cst_158 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %800 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %801 = stablehlo.multiply %800, %arg41 : tensor<16x16xf32>
    %cst_159 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %802 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %803 = stablehlo.multiply %802, %746 : tensor<16x16xf32>
    %804 = stablehlo.add %801, %803 : tensor<16x16xf32>
    %cst_160 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %805 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %806 = stablehlo.multiply %805, %arg42 : tensor<16xf32>
    %cst_161 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %807 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %808 = stablehlo.multiply %807, %759 : tensor<16xf32>
    %809 = stablehlo.add %806, %808 : tensor<16xf32>
    %cst_162 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %810 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %811 = stablehlo.multiply %810, %arg43 : tensor<16xf32>
    %cst_163 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %812 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %813 = stablehlo.multiply %812, %697 : tensor<16xf32>
    %814 = stablehlo.add %811, %813 : tensor<16xf32>
    %cst_164 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %815 = stablehlo.broadcast_in_dim %cst_164, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %816 = stablehlo.multiply %815, %arg44 : tensor<16x16xf32>
    %cst_165 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %817 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %818 = stablehlo.multiply %817, %714 : tensor<16x16xf32>
    %819 = stablehlo.add %816, %818 : tensor<16x16xf32>
    %cst_166 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %820 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %821 = stablehlo.multiply %820, %arg45 : tensor<16x16xf32>
    %cst_167 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %822 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %823 = stablehlo.multiply %822, %751 : tensor<16x16xf32>
    %824 = stablehlo.add %821, %823 : tensor<16x16xf32>
    %cst_168 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %825 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %826 = stablehlo.multiply %825, %arg46 : tensor<16x32xf32>
    %cst_169 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %827 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %828 = stablehlo.multiply %827, %685 : tensor<16x32xf32>
    %829 = stablehlo.add %826, %828 : tensor<16x32xf32>
    %cst_170 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %830 = stablehlo.broadcast_in_dim %cst_170, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %831 = stablehlo.multiply %830, %arg47 : tensor<16x16xf32>
    %cst_171 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %832 = stablehlo.broadcast_in_dim %cst_171, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %833 = stablehlo.multiply %832, %742 : tensor<16x16xf32>
    %834 = stablehlo.add %831, %833 : tensor<16x16xf32>
    %cst_172 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %835 = stablehlo.broadcast_in_dim %cst_172, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %836 = stablehlo.multiply %835, %arg48 : tensor<32x16xf32>
    %cst_173 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %837 = stablehlo.broadcast_in_dim %cst_173, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %838 = stablehlo.multiply %837, %584 : tensor<32x16xf32>
    %839 = stablehlo.add %836, %838 : tensor<32x16xf32>
    %cst_174 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %840 = stablehlo.broadcast_in_dim %cst_174, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %841 = stablehlo.multiply %840, %arg49 : tensor<16x32xf32>
    %cst_175 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %842 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %843 = stablehlo.multiply %842, %593 : tensor<16x32xf32>
    %844 = stablehlo.add %841, %843 : tensor<16x32xf32>
    %cst_176 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %845 = stablehlo.broadcast_in_dim %cst_176, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %846 = stablehlo.multiply %845, %arg50 : tensor<16x16xf32>
    %cst_177 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %847 = stablehlo.broadcast_in_dim %cst_177, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %848 = stablehlo.multiply %847, %650 : tensor<16x16xf32>
    %849 = stablehlo.add %846, %848 : tensor<16x16xf32>
    %cst_178 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %850 = stablehlo.broadcast_in_dim %cst_178, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %851 = stablehlo.multiply %850, %arg51 : tensor<16xf32>
    %cst_179 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %852 = stablehlo.broadcast_in_dim %cst_179, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %853 = stablehlo.multiply %852, %663 : tensor<16xf32>
    %854 = stablehlo.add %851, %853 : tensor<16xf32>
    %cst_180 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %855 = stablehlo.broadcast_in_dim %cst_180, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %856 = stablehlo.multiply %855, %arg52 : tensor<16xf32>
    %cst_181 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %857 = stablehlo.broadcast_in_dim %cst_181, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %858 = stablehlo.multiply %857, %601 : tensor<16xf32>
    %859 = stablehlo.add %856, %858 : tensor<16xf32>
    %cst_182 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %860 = stablehlo.broadcast_in_dim %cst_182, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %861 = stablehlo.multiply %860, %arg53 : tensor<16x16xf32>
    %cst_183 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %862 = stablehlo.broadcast_in_dim %cst_183, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %863 = stablehlo.multiply %862, %618 : tensor<16x16xf32>
    %864 = stablehlo.add %861, %863 : tensor<16x16xf32>
    %cst_184 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %865 = stablehlo.broadcast_in_dim %cst_184, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %866 = stablehlo.multiply %865, %arg54 : tensor<16x16xf32>
    %cst_185 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %867 = stablehlo.broadcast_in_dim %cst_185, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %868 = stablehlo.multiply %867, %655 : tensor<16x16xf32>
    %869 = stablehlo.add %866, %868 : tensor<16x16xf32>
    %cst_186 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %870 = stablehlo.broadcast_in_dim %cst_186, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %871 = stablehlo.multiply %870, %arg55 : tensor<16x32xf32>
    %cst_187 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %872 = stablehlo.broadcast_in_dim %cst_187, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %873 = stablehlo.multiply %872, %589 : tensor<16x32xf32>
    %874 = stablehlo.add %871, %873 : tensor<16x32xf32>
    %cst_188 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %875 = stablehlo.broadcast_in_dim %cst_188, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %876 = stablehlo.multiply %875, %arg56 : tensor<16x16xf32>
    %cst_189 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %877 = stablehlo.broadcast_in_dim %cst_189, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %878 = stablehlo.multiply %877, %646 : tensor<16x16xf32>
    %879 = stablehlo.add %876, %878 : tensor<16x16xf32>
    %cst_190 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %880 = stablehlo.broadcast_in_dim %cst_190, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %881 = stablehlo.multiply %880, %arg57 : tensor<32x16xf32>
    %cst_191 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %882 = stablehlo.broadcast_in_dim %cst_191, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %883 = stablehlo.multiply %882, %488 : tensor<32x16xf32>
    %884 = stablehlo.add %881, %883 : tensor<32x16xf32>
    %cst_192 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %885 = stablehlo.broadcast_in_dim %cst_192, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %886 = stablehlo.multiply %885, %arg58 : tensor<16x32xf32>
    %cst_193 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %887 = stablehlo.broadcast_in_dim %cst_193, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %888 = stablehlo.multiply %887, %497 : tensor<16x32xf32>
    %889 = stablehlo.add %886, %888 : tensor<16x32xf32>
    %cst_194 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %890 = stablehlo.broadcast_in_dim %cst_194, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %891 = stablehlo.multiply %890, %arg59 : tensor<16x16xf32>
    %cst_195 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %892 = stablehlo.broadcast_in_dim %cst_195, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %893 = stablehlo.multiply %892, %554 : tensor<16x16xf32>
    %894 = stablehlo.add %891, %893 : tensor<16x16xf32>
    %cst_196 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %895 = stablehlo.broadcast_in_dim %cst_196, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %896 = stablehlo.multiply %895, %arg60 : tensor<16xf32>
    %cst_197 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %897 = stablehlo.broadcast_in_dim %cst_197, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %898 = stablehlo.multiply %897, %567 : tensor<16xf32>
    %899 = stablehlo.add %896, %898 : tensor<16xf32>
    %cst_198 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %900 = stablehlo.broadcast_in_dim %cst_198, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %901 = stablehlo.multiply %900, %arg61 : tensor<16xf32>
    %cst_199 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %902 = stablehlo.broadcast_in_dim %cst_199, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %903 = stablehlo.multiply %902, %505 : tensor<16xf32>
    %904 = stablehlo.add %901, %903 : tensor<16xf32>
    %cst_200 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %905 = stablehlo.broadcast_in_dim %cst_200, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %906 = stablehlo.multiply %905, %arg62 : tensor<16x16xf32>
    %cst_201 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %907 = stablehlo.broadcast_in_dim %cst_201, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %908 = stablehlo.multiply %907, %522 : tensor<16x16xf32>
    %909 = stablehlo.add %906, %908 : tensor<16x16xf32>
    %cst_202 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %910 = stablehlo.broadcast_in_dim %cst_202, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %911 = stablehlo.multiply %910, %arg63 : tensor<16x16xf32>
    %cst_203 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %912 = stablehlo.broadcast_in_dim %cst_203, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %913 = stablehlo.multiply %912, %559 : tensor<16x16xf32>
    %914 = stablehlo.add %911, %913 : tensor<16x16xf32>
    %cst_204 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %915 = stablehlo.broadcast_in_dim %cst_204, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %916 = stablehlo.multiply %915, %arg64 : tensor<16x32xf32>
    %cst_205 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %917 = stablehlo.broadcast_in_dim %cst_205, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %918 = stablehlo.multiply %917, %493 : tensor<16x32xf32>
    %919 = stablehlo.add %916, %918 : tensor<16x32xf32>
    %cst_206 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %920 = stablehlo.broadcast_in_dim %cst_206, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %921 = stablehlo.multiply %920, %arg65 : tensor<16x16xf32>
    %cst_207 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %922 = stablehlo.broadcast_in_dim %cst_207, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %923 = stablehlo.multiply %922, %550 : tensor<16x16xf32>
    %924 = stablehlo.add %921, %923 : tensor<16x16xf32>
    %cst_208 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %925 = stablehlo.broadcast_in_dim %cst_208, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %926 = stablehlo.multiply %925, %arg66 : tensor<32x16xf32>
    %cst_209 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %927 = stablehlo.broadcast_in_dim %cst_209, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %928 = stablehlo.multiply %927, %392 : tensor<32x16xf32>
    %929 = stablehlo.add %926, %928 : tensor<32x16xf32>
    %cst_210 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %930 = stablehlo.broadcast_in_dim %cst_210, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %931 = stablehlo.multiply %930, %arg67 : tensor<16x32xf32>
    %cst_211 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %932 = stablehlo.broadcast_in_dim %cst_211, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %933 = stablehlo.multiply %932, %401 : tensor<16x32xf32>
    %934 = stablehlo.add %931, %933 : tensor<16x32xf32>
    %cst_212 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %935 = stablehlo.broadcast_in_dim %cst_212, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %936 = stablehlo.multiply %935, %arg68 : tensor<16x16xf32>
    %cst_213 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %937 = stablehlo.broadcast_in_dim %cst_213, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %938 = stablehlo.multiply %937, %458 : tensor<16x16xf32>
    %939 = stablehlo.add %936, %938 : tensor<16x16xf32>
    %cst_214 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %940 = stablehlo.broadcast_in_dim %cst_214, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %941 = stablehlo.multiply %940, %arg69 : tensor<16xf32>
    %cst_215 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %942 = stablehlo.broadcast_in_dim %cst_215, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %943 = stablehlo.multiply %942, %471 : tensor<16xf32>
    %944 = stablehlo.add %941, %943 : tensor<16xf32>
    %cst_216 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %945 = stablehlo.broadcast_in_dim %cst_216, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %946 = stablehlo.multiply %945, %arg70 : tensor<16xf32>
    %cst_217 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %947 = stablehlo.broadcast_in_dim %cst_217, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %948 = stablehlo.multiply %947, %409 : tensor<16xf32>
    %949 = stablehlo.add %946, %948 : tensor<16xf32>
    %cst_218 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %950 = stablehlo.broadcast_in_dim %cst_218, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %951 = stablehlo.multiply %950, %arg71 : tensor<16x16xf32>
    %cst_219 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %952 = stablehlo.broadcast_in_dim %cst_219, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %953 = stablehlo.multiply %952, %426 : tensor<16x16xf32>
    %954 = stablehlo.add %951, %953 : tensor<16x16xf32>
    %cst_220 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %955 = stablehlo.broadcast_in_dim %cst_220, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %956 = stablehlo.multiply %955, %arg72 : tensor<16x16xf32>
    %cst_221 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %957 = stablehlo.broadcast_in_dim %cst_221, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %958 = stablehlo.multiply %957, %463 : tensor<16x16xf32>
    %959 = stablehlo.add %956, %958 : tensor<16x16xf32>
    %cst_222 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %960 = stablehlo.broadcast_in_dim %cst_222, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %961 = stablehlo.multiply %960, %arg73 : tensor<16x32xf32>
    %cst_223 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %962 = stablehlo.broadcast_in_dim %cst_223, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %963 = stablehlo.multiply %962, %397 : tensor<16x32xf32>
    %964 = stablehlo.add %961, %963 : tensor<16x32xf32>
    %cst_224 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %965 = stablehlo.broadcast_in_dim %cst_224, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %966 = stablehlo.multiply %965, %arg74 : tensor<16x16xf32>
    %cst_225 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %967 = stablehlo.broadcast_in_dim %cst_225, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %968 = stablehlo.multiply %967, %454 : tensor<16x16xf32>
    %969 = stablehlo.add %966, %968 : tensor<16x16xf32>
    %cst_226 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %970 = stablehlo.broadcast_in_dim %cst_226, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %971 = stablehlo.multiply %970, %arg75 : tensor<16xf32>
    %cst_227 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %972 = stablehlo.broadcast_in_dim %cst_227, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %973 = stablehlo.multiply %972, %376 : tensor<16xf32>
    %974 = stablehlo.add %971, %973 : tensor<16xf32>
    %cst_228 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %975 = stablehlo.broadcast_in_dim %cst_228, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %976 = stablehlo.multiply %975, %arg76 : tensor<64x16xf32>
    %cst_229 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %977 = stablehlo.broadcast_in_dim %cst_229, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %978 = stablehlo.multiply %977, %777 : tensor<64x16xf32>
    %979 = stablehlo.multiply %978, %777 : tensor<64x16xf32>
    %980 = stablehlo.add %976, %979 : tensor<64x16xf32>
    %cst_230 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %981 = stablehlo.broadcast_in_dim %cst_230, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %982 = stablehlo.multiply %981, %arg77 : tensor<32x16xf32>
    %cst_231 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %983 = stablehlo.broadcast_in_dim %cst_231, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %984 = stablehlo.multiply %983, %680 : tensor<32x16xf32>
    %985 = stablehlo.multiply %984, %680 : tensor<32x16xf32>
    %986 = stablehlo.add %982, %985 : tensor<32x16xf32>
    %cst_232 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %987 = stablehlo.broadcast_in_dim %cst_232, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %988 = stablehlo.multiply %987, %arg78 : tensor<16x32xf32>
    %cst_233 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %989 = stablehlo.broadcast_in_dim %cst_233, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %990 = stablehlo.multiply %989, %689 : tensor<16x32xf32>
    %991 = stablehlo.multiply %990, %689 : tensor<16x32xf32>
    %992 = stablehlo.add %988, %991 : tensor<16x32xf32>
    %cst_234 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %993 = stablehlo.broadcast_in_dim %cst_234, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %994 = stablehlo.multiply %993, %arg79 : tensor<16x16xf32>
    %cst_235 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %995 = stablehlo.broadcast_in_dim %cst_235, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %996 = stablehlo.multiply %995, %746 : tensor<16x16xf32>
    %997 = stablehlo.multiply %996, %746 : tensor<16x16xf32>
    %998 = stablehlo.add %994, %997 : tensor<16x16xf32>
    %cst_236 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %999 = stablehlo.broadcast_in_dim %cst_236, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1000 = stablehlo.multiply %999, %arg80 : tensor<16xf32>
    %cst_237 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1001 = stablehlo.broadcast_in_dim %cst_237, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1002 = stablehlo.multiply %1001, %759 : tensor<16xf32>
    %1003 = stablehlo.multiply %1002, %759 : tensor<16xf32>
    %1004 = stablehlo.add %1000, %1003 : tensor<16xf32>
    %cst_238 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1005 = stablehlo.broadcast_in_dim %cst_238, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1006 = stablehlo.multiply %1005, %arg81 : tensor<16xf32>
    %cst_239 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1007 = stablehlo.broadcast_in_dim %cst_239, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1008 = stablehlo.multiply %1007, %697 : tensor<16xf32>
    %1009 = stablehlo.multiply %1008, %697 : tensor<16xf32>
    %1010 = stablehlo.add %1006, %1009 : tensor<16xf32>
    %cst_240 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1011 = stablehlo.broadcast_in_dim %cst_240, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1012 = stablehlo.multiply %1011, %arg82 : tensor<16x16xf32>
    %cst_241 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1013 = stablehlo.broadcast_in_dim %cst_241, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1014 = stablehlo.multiply %1013, %714 : tensor<16x16xf32>
    %1015 = stablehlo.multiply %1014, %714 : tensor<16x16xf32>
    %1016 = stablehlo.add %1012, %1015 : tensor<16x16xf32>
    %cst_242 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1017 = stablehlo.broadcast_in_dim %cst_242, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1018 = stablehlo.multiply %1017, %arg83 : tensor<16x16xf32>
    %cst_243 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1019 = stablehlo.broadcast_in_dim %cst_243, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1020 = stablehlo.multiply %1019, %751 : tensor<16x16xf32>
    %1021 = stablehlo.multiply %1020, %751 : tensor<16x16xf32>
    %1022 = stablehlo.add %1018, %1021 : tensor<16x16xf32>
    %cst_244 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1023 = stablehlo.broadcast_in_dim %cst_244, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1024 = stablehlo.multiply %1023, %arg84 : tensor<16x32xf32>
    %cst_245 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1025 = stablehlo.broadcast_in_dim %cst_245, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1026 = stablehlo.multiply %1025, %685 : tensor<16x32xf32>
    %1027 = stablehlo.multiply %1026, %685 : tensor<16x32xf32>
    %1028 = stablehlo.add %1024, %1027 : tensor<16x32xf32>
    %cst_246 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1029 = stablehlo.broadcast_in_dim %cst_246, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1030 = stablehlo.multiply %1029, %arg85 : tensor<16x16xf32>
    %cst_247 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1031 = stablehlo.broadcast_in_dim %cst_247, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1032 = stablehlo.multiply %1031, %742 : tensor<16x16xf32>
    %1033 = stablehlo.multiply %1032, %742 : tensor<16x16xf32>
    %1034 = stablehlo.add %1030, %1033 : tensor<16x16xf32>
    %cst_248 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1035 = stablehlo.broadcast_in_dim %cst_248, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1036 = stablehlo.multiply %1035, %arg86 : tensor<32x16xf32>
    %cst_249 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1037 = stablehlo.broadcast_in_dim %cst_249, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1038 = stablehlo.multiply %1037, %584 : tensor<32x16xf32>
    %1039 = stablehlo.multiply %1038, %584 : tensor<32x16xf32>
    %1040 = stablehlo.add %1036, %1039 : tensor<32x16xf32>
    %cst_250 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1041 = stablehlo.broadcast_in_dim %cst_250, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1042 = stablehlo.multiply %1041, %arg87 : tensor<16x32xf32>
    %cst_251 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1043 = stablehlo.broadcast_in_dim %cst_251, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1044 = stablehlo.multiply %1043, %593 : tensor<16x32xf32>
    %1045 = stablehlo.multiply %1044, %593 : tensor<16x32xf32>
    %1046 = stablehlo.add %1042, %1045 : tensor<16x32xf32>
    %cst_252 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1047 = stablehlo.broadcast_in_dim %cst_252, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1048 = stablehlo.multiply %1047, %arg88 : tensor<16x16xf32>
    %cst_253 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1049 = stablehlo.broadcast_in_dim %cst_253, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1050 = stablehlo.multiply %1049, %650 : tensor<16x16xf32>
    %1051 = stablehlo.multiply %1050, %650 : tensor<16x16xf32>
    %1052 = stablehlo.add %1048, %1051 : tensor<16x16xf32>
    %cst_254 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1053 = stablehlo.broadcast_in_dim %cst_254, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1054 = stablehlo.multiply %1053, %arg89 : tensor<16xf32>
    %cst_255 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1055 = stablehlo.broadcast_in_dim %cst_255, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1056 = stablehlo.multiply %1055, %663 : tensor<16xf32>
    %1057 = stablehlo.multiply %1056, %663 : tensor<16xf32>
    %1058 = stablehlo.add %1054, %1057 : tensor<16xf32>
    %cst_256 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1059 = stablehlo.broadcast_in_dim %cst_256, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1060 = stablehlo.multiply %1059, %arg90 : tensor<16xf32>
    %cst_257 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1061 = stablehlo.broadcast_in_dim %cst_257, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1062 = stablehlo.multiply %1061, %601 : tensor<16xf32>
    %1063 = stablehlo.multiply %1062, %601 : tensor<16xf32>
    %1064 = stablehlo.add %1060, %1063 : tensor<16xf32>
    %cst_258 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1065 = stablehlo.broadcast_in_dim %cst_258, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1066 = stablehlo.multiply %1065, %arg91 : tensor<16x16xf32>
    %cst_259 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1067 = stablehlo.broadcast_in_dim %cst_259, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1068 = stablehlo.multiply %1067, %618 : tensor<16x16xf32>
    %1069 = stablehlo.multiply %1068, %618 : tensor<16x16xf32>
    %1070 = stablehlo.add %1066, %1069 : tensor<16x16xf32>
    %cst_260 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1071 = stablehlo.broadcast_in_dim %cst_260, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1072 = stablehlo.multiply %1071, %arg92 : tensor<16x16xf32>
    %cst_261 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1073 = stablehlo.broadcast_in_dim %cst_261, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1074 = stablehlo.multiply %1073, %655 : tensor<16x16xf32>
    %1075 = stablehlo.multiply %1074, %655 : tensor<16x16xf32>
    %1076 = stablehlo.add %1072, %1075 : tensor<16x16xf32>
    %cst_262 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1077 = stablehlo.broadcast_in_dim %cst_262, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1078 = stablehlo.multiply %1077, %arg93 : tensor<16x32xf32>
    %cst_263 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1079 = stablehlo.broadcast_in_dim %cst_263, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1080 = stablehlo.multiply %1079, %589 : tensor<16x32xf32>
    %1081 = stablehlo.multiply %1080, %589 : tensor<16x32xf32>
    %1082 = stablehlo.add %1078, %1081 : tensor<16x32xf32>
    %cst_264 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1083 = stablehlo.broadcast_in_dim %cst_264, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1084 = stablehlo.multiply %1083, %arg94 : tensor<16x16xf32>
    %cst_265 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1085 = stablehlo.broadcast_in_dim %cst_265, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1086 = stablehlo.multiply %1085, %646 : tensor<16x16xf32>
    %1087 = stablehlo.multiply %1086, %646 : tensor<16x16xf32>
    %1088 = stablehlo.add %1084, %1087 : tensor<16x16xf32>
    %cst_266 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1089 = stablehlo.broadcast_in_dim %cst_266, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1090 = stablehlo.multiply %1089, %arg95 : tensor<32x16xf32>
    %cst_267 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1091 = stablehlo.broadcast_in_dim %cst_267, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1092 = stablehlo.multiply %1091, %488 : tensor<32x16xf32>
    %1093 = stablehlo.multiply %1092, %488 : tensor<32x16xf32>
    %1094 = stablehlo.add %1090, %1093 : tensor<32x16xf32>
    %cst_268 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1095 = stablehlo.broadcast_in_dim %cst_268, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1096 = stablehlo.multiply %1095, %arg96 : tensor<16x32xf32>
    %cst_269 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1097 = stablehlo.broadcast_in_dim %cst_269, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1098 = stablehlo.multiply %1097, %497 : tensor<16x32xf32>
    %1099 = stablehlo.multiply %1098, %497 : tensor<16x32xf32>
    %1100 = stablehlo.add %1096, %1099 : tensor<16x32xf32>
    %cst_270 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1101 = stablehlo.broadcast_in_dim %cst_270, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1102 = stablehlo.multiply %1101, %arg97 : tensor<16x16xf32>
    %cst_271 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1103 = stablehlo.broadcast_in_dim %cst_271, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1104 = stablehlo.multiply %1103, %554 : tensor<16x16xf32>
    %1105 = stablehlo.multiply %1104, %554 : tensor<16x16xf32>
    %1106 = stablehlo.add %1102, %1105 : tensor<16x16xf32>
    %cst_272 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1107 = stablehlo.broadcast_in_dim %cst_272, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1108 = stablehlo.multiply %1107, %arg98 : tensor<16xf32>
    %cst_273 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1109 = stablehlo.broadcast_in_dim %cst_273, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1110 = stablehlo.multiply %1109, %567 : tensor<16xf32>
    %1111 = stablehlo.multiply %1110, %567 : tensor<16xf32>
    %1112 = stablehlo.add %1108, %1111 : tensor<16xf32>
    %cst_274 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1113 = stablehlo.broadcast_in_dim %cst_274, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1114 = stablehlo.multiply %1113, %arg99 : tensor<16xf32>
    %cst_275 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1115 = stablehlo.broadcast_in_dim %cst_275, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1116 = stablehlo.multiply %1115, %505 : tensor<16xf32>
    %1117 = stablehlo.multiply %1116, %505 : tensor<16xf32>
    %1118 = stablehlo.add %1114, %1117 : tensor<16xf32>
    %cst_276 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1119 = stablehlo.broadcast_in_dim %cst_276, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1120 = stablehlo.multiply %1119, %arg100 : tensor<16x16xf32>
    %cst_277 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1121 = stablehlo.broadcast_in_dim %cst_277, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1122 = stablehlo.multiply %1121, %522 : tensor<16x16xf32>
    %1123 = stablehlo.multiply %1122, %522 : tensor<16x16xf32>
    %1124 = stablehlo.add %1120, %1123 : tensor<16x16xf32>
    %cst_278 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1125 = stablehlo.broadcast_in_dim %cst_278, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1126 = stablehlo.multiply %1125, %arg101 : tensor<16x16xf32>
    %cst_279 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1127 = stablehlo.broadcast_in_dim %cst_279, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1128 = stablehlo.multiply %1127, %559 : tensor<16x16xf32>
    %1129 = stablehlo.multiply %1128, %559 : tensor<16x16xf32>
    %1130 = stablehlo.add %1126, %1129 : tensor<16x16xf32>
    %cst_280 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1131 = stablehlo.broadcast_in_dim %cst_280, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1132 = stablehlo.multiply %1131, %arg102 : tensor<16x32xf32>
    %cst_281 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1133 = stablehlo.broadcast_in_dim %cst_281, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1134 = stablehlo.multiply %1133, %493 : tensor<16x32xf32>
    %1135 = stablehlo.multiply %1134, %493 : tensor<16x32xf32>
    %1136 = stablehlo.add %1132, %1135 : tensor<16x32xf32>
    %cst_282 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1137 = stablehlo.broadcast_in_dim %cst_282, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1138 = stablehlo.multiply %1137, %arg103 : tensor<16x16xf32>
    %cst_283 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1139 = stablehlo.broadcast_in_dim %cst_283, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1140 = stablehlo.multiply %1139, %550 : tensor<16x16xf32>
    %1141 = stablehlo.multiply %1140, %550 : tensor<16x16xf32>
    %1142 = stablehlo.add %1138, %1141 : tensor<16x16xf32>
    %cst_284 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1143 = stablehlo.broadcast_in_dim %cst_284, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1144 = stablehlo.multiply %1143, %arg104 : tensor<32x16xf32>
    %cst_285 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1145 = stablehlo.broadcast_in_dim %cst_285, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1146 = stablehlo.multiply %1145, %392 : tensor<32x16xf32>
    %1147 = stablehlo.multiply %1146, %392 : tensor<32x16xf32>
    %1148 = stablehlo.add %1144, %1147 : tensor<32x16xf32>
    %cst_286 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1149 = stablehlo.broadcast_in_dim %cst_286, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1150 = stablehlo.multiply %1149, %arg105 : tensor<16x32xf32>
    %cst_287 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1151 = stablehlo.broadcast_in_dim %cst_287, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1152 = stablehlo.multiply %1151, %401 : tensor<16x32xf32>
    %1153 = stablehlo.multiply %1152, %401 : tensor<16x32xf32>
    %1154 = stablehlo.add %1150, %1153 : tensor<16x32xf32>
    %cst_288 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1155 = stablehlo.broadcast_in_dim %cst_288, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1156 = stablehlo.multiply %1155, %arg106 : tensor<16x16xf32>
    %cst_289 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1157 = stablehlo.broadcast_in_dim %cst_289, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1158 = stablehlo.multiply %1157, %458 : tensor<16x16xf32>
    %1159 = stablehlo.multiply %1158, %458 : tensor<16x16xf32>
    %1160 = stablehlo.add %1156, %1159 : tensor<16x16xf32>
    %cst_290 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1161 = stablehlo.broadcast_in_dim %cst_290, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1162 = stablehlo.multiply %1161, %arg107 : tensor<16xf32>
    %cst_291 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1163 = stablehlo.broadcast_in_dim %cst_291, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1164 = stablehlo.multiply %1163, %471 : tensor<16xf32>
    %1165 = stablehlo.multiply %1164, %471 : tensor<16xf32>
    %1166 = stablehlo.add %1162, %1165 : tensor<16xf32>
    %cst_292 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1167 = stablehlo.broadcast_in_dim %cst_292, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1168 = stablehlo.multiply %1167, %arg108 : tensor<16xf32>
    %cst_293 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1169 = stablehlo.broadcast_in_dim %cst_293, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1170 = stablehlo.multiply %1169, %409 : tensor<16xf32>
    %1171 = stablehlo.multiply %1170, %409 : tensor<16xf32>
    %1172 = stablehlo.add %1168, %1171 : tensor<16xf32>
    %cst_294 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1173 = stablehlo.broadcast_in_dim %cst_294, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1174 = stablehlo.multiply %1173, %arg109 : tensor<16x16xf32>
    %cst_295 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1175 = stablehlo.broadcast_in_dim %cst_295, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1176 = stablehlo.multiply %1175, %426 : tensor<16x16xf32>
    %1177 = stablehlo.multiply %1176, %426 : tensor<16x16xf32>
    %1178 = stablehlo.add %1174, %1177 : tensor<16x16xf32>
    %cst_296 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1179 = stablehlo.broadcast_in_dim %cst_296, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1180 = stablehlo.multiply %1179, %arg110 : tensor<16x16xf32>
    %cst_297 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1181 = stablehlo.broadcast_in_dim %cst_297, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1182 = stablehlo.multiply %1181, %463 : tensor<16x16xf32>
    %1183 = stablehlo.multiply %1182, %463 : tensor<16x16xf32>
    %1184 = stablehlo.add %1180, %1183 : tensor<16x16xf32>
    %cst_298 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1185 = stablehlo.broadcast_in_dim %cst_298, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1186 = stablehlo.multiply %1185, %arg111 : tensor<16x32xf32>
    %cst_299 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1187 = stablehlo.broadcast_in_dim %cst_299, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1188 = stablehlo.multiply %1187, %397 : tensor<16x32xf32>
    %1189 = stablehlo.multiply %1188, %397 : tensor<16x32xf32>
    %1190 = stablehlo.add %1186, %1189 : tensor<16x32xf32>
    %cst_300 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1191 = stablehlo.broadcast_in_dim %cst_300, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1192 = stablehlo.multiply %1191, %arg112 : tensor<16x16xf32>
    %cst_301 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1193 = stablehlo.broadcast_in_dim %cst_301, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1194 = stablehlo.multiply %1193, %454 : tensor<16x16xf32>
    %1195 = stablehlo.multiply %1194, %454 : tensor<16x16xf32>
    %1196 = stablehlo.add %1192, %1195 : tensor<16x16xf32>
    %cst_302 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %1197 = stablehlo.broadcast_in_dim %cst_302, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1198 = stablehlo.multiply %1197, %arg113 : tensor<16xf32>
    %cst_303 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1199 = stablehlo.broadcast_in_dim %cst_303, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1200 = stablehlo.multiply %1199, %376 : tensor<16xf32>
    %1201 = stablehlo.multiply %1200, %376 : tensor<16xf32>
    %1202 = stablehlo.add %1198, %1201 : tensor<16xf32>
    %1203 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %1204 = stablehlo.divide %789, %1203 : tensor<64x16xf32>
    %cst_304 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1205 = stablehlo.broadcast_in_dim %cst_304, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %1206 = stablehlo.multiply %1205, %1204 : tensor<64x16xf32>
    %1207 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %1208 = stablehlo.divide %980, %1207 : tensor<64x16xf32>
    %1209 = stablehlo.sqrt %1208 : tensor<64x16xf32>
    %cst_305 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1210 = stablehlo.broadcast_in_dim %cst_305, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %1211 = stablehlo.add %1209, %1210 : tensor<64x16xf32>
    %1212 = stablehlo.divide %1206, %1211 : tensor<64x16xf32>
    %1213 = stablehlo.subtract %arg0, %1212 : tensor<64x16xf32>
    %1214 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1215 = stablehlo.divide %794, %1214 : tensor<32x16xf32>
    %cst_306 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1216 = stablehlo.broadcast_in_dim %cst_306, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1217 = stablehlo.multiply %1216, %1215 : tensor<32x16xf32>
    %1218 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1219 = stablehlo.divide %986, %1218 : tensor<32x16xf32>
    %1220 = stablehlo.sqrt %1219 : tensor<32x16xf32>
    %cst_307 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1221 = stablehlo.broadcast_in_dim %cst_307, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1222 = stablehlo.add %1220, %1221 : tensor<32x16xf32>
    %1223 = stablehlo.divide %1217, %1222 : tensor<32x16xf32>
    %1224 = stablehlo.subtract %arg1, %1223 : tensor<32x16xf32>
    %1225 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1226 = stablehlo.divide %799, %1225 : tensor<16x32xf32>
    %cst_308 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1227 = stablehlo.broadcast_in_dim %cst_308, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1228 = stablehlo.multiply %1227, %1226 : tensor<16x32xf32>
    %1229 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1230 = stablehlo.divide %992, %1229 : tensor<16x32xf32>
    %1231 = stablehlo.sqrt %1230 : tensor<16x32xf32>
    %cst_309 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1232 = stablehlo.broadcast_in_dim %cst_309, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1233 = stablehlo.add %1231, %1232 : tensor<16x32xf32>
    %1234 = stablehlo.divide %1228, %1233 : tensor<16x32xf32>
    %1235 = stablehlo.subtract %arg2, %1234 : tensor<16x32xf32>
    %1236 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1237 = stablehlo.divide %804, %1236 : tensor<16x16xf32>
    %cst_310 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1238 = stablehlo.broadcast_in_dim %cst_310, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1239 = stablehlo.multiply %1238, %1237 : tensor<16x16xf32>
    %1240 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1241 = stablehlo.divide %998, %1240 : tensor<16x16xf32>
    %1242 = stablehlo.sqrt %1241 : tensor<16x16xf32>
    %cst_311 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1243 = stablehlo.broadcast_in_dim %cst_311, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1244 = stablehlo.add %1242, %1243 : tensor<16x16xf32>
    %1245 = stablehlo.divide %1239, %1244 : tensor<16x16xf32>
    %1246 = stablehlo.subtract %arg3, %1245 : tensor<16x16xf32>
    %1247 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1248 = stablehlo.divide %809, %1247 : tensor<16xf32>
    %cst_312 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1249 = stablehlo.broadcast_in_dim %cst_312, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1250 = stablehlo.multiply %1249, %1248 : tensor<16xf32>
    %1251 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1252 = stablehlo.divide %1004, %1251 : tensor<16xf32>
    %1253 = stablehlo.sqrt %1252 : tensor<16xf32>
    %cst_313 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1254 = stablehlo.broadcast_in_dim %cst_313, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1255 = stablehlo.add %1253, %1254 : tensor<16xf32>
    %1256 = stablehlo.divide %1250, %1255 : tensor<16xf32>
    %1257 = stablehlo.subtract %arg4, %1256 : tensor<16xf32>
    %1258 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1259 = stablehlo.divide %814, %1258 : tensor<16xf32>
    %cst_314 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1260 = stablehlo.broadcast_in_dim %cst_314, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1261 = stablehlo.multiply %1260, %1259 : tensor<16xf32>
    %1262 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1263 = stablehlo.divide %1010, %1262 : tensor<16xf32>
    %1264 = stablehlo.sqrt %1263 : tensor<16xf32>
    %cst_315 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1265 = stablehlo.broadcast_in_dim %cst_315, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1266 = stablehlo.add %1264, %1265 : tensor<16xf32>
    %1267 = stablehlo.divide %1261, %1266 : tensor<16xf32>
    %1268 = stablehlo.subtract %arg5, %1267 : tensor<16xf32>
    %1269 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1270 = stablehlo.divide %819, %1269 : tensor<16x16xf32>
    %cst_316 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1271 = stablehlo.broadcast_in_dim %cst_316, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1272 = stablehlo.multiply %1271, %1270 : tensor<16x16xf32>
    %1273 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1274 = stablehlo.divide %1016, %1273 : tensor<16x16xf32>
    %1275 = stablehlo.sqrt %1274 : tensor<16x16xf32>
    %cst_317 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1276 = stablehlo.broadcast_in_dim %cst_317, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1277 = stablehlo.add %1275, %1276 : tensor<16x16xf32>
    %1278 = stablehlo.divide %1272, %1277 : tensor<16x16xf32>
    %1279 = stablehlo.subtract %arg6, %1278 : tensor<16x16xf32>
    %1280 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1281 = stablehlo.divide %824, %1280 : tensor<16x16xf32>
    %cst_318 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1282 = stablehlo.broadcast_in_dim %cst_318, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1283 = stablehlo.multiply %1282, %1281 : tensor<16x16xf32>
    %1284 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1285 = stablehlo.divide %1022, %1284 : tensor<16x16xf32>
    %1286 = stablehlo.sqrt %1285 : tensor<16x16xf32>
    %cst_319 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1287 = stablehlo.broadcast_in_dim %cst_319, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1288 = stablehlo.add %1286, %1287 : tensor<16x16xf32>
    %1289 = stablehlo.divide %1283, %1288 : tensor<16x16xf32>
    %1290 = stablehlo.subtract %arg7, %1289 : tensor<16x16xf32>
    %1291 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1292 = stablehlo.divide %829, %1291 : tensor<16x32xf32>
    %cst_320 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1293 = stablehlo.broadcast_in_dim %cst_320, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1294 = stablehlo.multiply %1293, %1292 : tensor<16x32xf32>
    %1295 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1296 = stablehlo.divide %1028, %1295 : tensor<16x32xf32>
    %1297 = stablehlo.sqrt %1296 : tensor<16x32xf32>
    %cst_321 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1298 = stablehlo.broadcast_in_dim %cst_321, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1299 = stablehlo.add %1297, %1298 : tensor<16x32xf32>
    %1300 = stablehlo.divide %1294, %1299 : tensor<16x32xf32>
    %1301 = stablehlo.subtract %arg8, %1300 : tensor<16x32xf32>
    %1302 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1303 = stablehlo.divide %834, %1302 : tensor<16x16xf32>
    %cst_322 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1304 = stablehlo.broadcast_in_dim %cst_322, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1305 = stablehlo.multiply %1304, %1303 : tensor<16x16xf32>
    %1306 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1307 = stablehlo.divide %1034, %1306 : tensor<16x16xf32>
    %1308 = stablehlo.sqrt %1307 : tensor<16x16xf32>
    %cst_323 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1309 = stablehlo.broadcast_in_dim %cst_323, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1310 = stablehlo.add %1308, %1309 : tensor<16x16xf32>
    %1311 = stablehlo.divide %1305, %1310 : tensor<16x16xf32>
    %1312 = stablehlo.subtract %arg9, %1311 : tensor<16x16xf32>
    %1313 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1314 = stablehlo.divide %839, %1313 : tensor<32x16xf32>
    %cst_324 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1315 = stablehlo.broadcast_in_dim %cst_324, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1316 = stablehlo.multiply %1315, %1314 : tensor<32x16xf32>
    %1317 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1318 = stablehlo.divide %1040, %1317 : tensor<32x16xf32>
    %1319 = stablehlo.sqrt %1318 : tensor<32x16xf32>
    %cst_325 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1320 = stablehlo.broadcast_in_dim %cst_325, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1321 = stablehlo.add %1319, %1320 : tensor<32x16xf32>
    %1322 = stablehlo.divide %1316, %1321 : tensor<32x16xf32>
    %1323 = stablehlo.subtract %arg10, %1322 : tensor<32x16xf32>
    %1324 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1325 = stablehlo.divide %844, %1324 : tensor<16x32xf32>
    %cst_326 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1326 = stablehlo.broadcast_in_dim %cst_326, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1327 = stablehlo.multiply %1326, %1325 : tensor<16x32xf32>
    %1328 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1329 = stablehlo.divide %1046, %1328 : tensor<16x32xf32>
    %1330 = stablehlo.sqrt %1329 : tensor<16x32xf32>
    %cst_327 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1331 = stablehlo.broadcast_in_dim %cst_327, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1332 = stablehlo.add %1330, %1331 : tensor<16x32xf32>
    %1333 = stablehlo.divide %1327, %1332 : tensor<16x32xf32>
    %1334 = stablehlo.subtract %arg11, %1333 : tensor<16x32xf32>
    %1335 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1336 = stablehlo.divide %849, %1335 : tensor<16x16xf32>
    %cst_328 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1337 = stablehlo.broadcast_in_dim %cst_328, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1338 = stablehlo.multiply %1337, %1336 : tensor<16x16xf32>
    %1339 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1340 = stablehlo.divide %1052, %1339 : tensor<16x16xf32>
    %1341 = stablehlo.sqrt %1340 : tensor<16x16xf32>
    %cst_329 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1342 = stablehlo.broadcast_in_dim %cst_329, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1343 = stablehlo.add %1341, %1342 : tensor<16x16xf32>
    %1344 = stablehlo.divide %1338, %1343 : tensor<16x16xf32>
    %1345 = stablehlo.subtract %arg12, %1344 : tensor<16x16xf32>
    %1346 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1347 = stablehlo.divide %854, %1346 : tensor<16xf32>
    %cst_330 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1348 = stablehlo.broadcast_in_dim %cst_330, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1349 = stablehlo.multiply %1348, %1347 : tensor<16xf32>
    %1350 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1351 = stablehlo.divide %1058, %1350 : tensor<16xf32>
    %1352 = stablehlo.sqrt %1351 : tensor<16xf32>
    %cst_331 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1353 = stablehlo.broadcast_in_dim %cst_331, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1354 = stablehlo.add %1352, %1353 : tensor<16xf32>
    %1355 = stablehlo.divide %1349, %1354 : tensor<16xf32>
    %1356 = stablehlo.subtract %arg13, %1355 : tensor<16xf32>
    %1357 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1358 = stablehlo.divide %859, %1357 : tensor<16xf32>
    %cst_332 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1359 = stablehlo.broadcast_in_dim %cst_332, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1360 = stablehlo.multiply %1359, %1358 : tensor<16xf32>
    %1361 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1362 = stablehlo.divide %1064, %1361 : tensor<16xf32>
    %1363 = stablehlo.sqrt %1362 : tensor<16xf32>
    %cst_333 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1364 = stablehlo.broadcast_in_dim %cst_333, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1365 = stablehlo.add %1363, %1364 : tensor<16xf32>
    %1366 = stablehlo.divide %1360, %1365 : tensor<16xf32>
    %1367 = stablehlo.subtract %arg14, %1366 : tensor<16xf32>
    %1368 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1369 = stablehlo.divide %864, %1368 : tensor<16x16xf32>
    %cst_334 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1370 = stablehlo.broadcast_in_dim %cst_334, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1371 = stablehlo.multiply %1370, %1369 : tensor<16x16xf32>
    %1372 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1373 = stablehlo.divide %1070, %1372 : tensor<16x16xf32>
    %1374 = stablehlo.sqrt %1373 : tensor<16x16xf32>
    %cst_335 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1375 = stablehlo.broadcast_in_dim %cst_335, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1376 = stablehlo.add %1374, %1375 : tensor<16x16xf32>
    %1377 = stablehlo.divide %1371, %1376 : tensor<16x16xf32>
    %1378 = stablehlo.subtract %arg15, %1377 : tensor<16x16xf32>
    %1379 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1380 = stablehlo.divide %869, %1379 : tensor<16x16xf32>
    %cst_336 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1381 = stablehlo.broadcast_in_dim %cst_336, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1382 = stablehlo.multiply %1381, %1380 : tensor<16x16xf32>
    %1383 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1384 = stablehlo.divide %1076, %1383 : tensor<16x16xf32>
    %1385 = stablehlo.sqrt %1384 : tensor<16x16xf32>
    %cst_337 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1386 = stablehlo.broadcast_in_dim %cst_337, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1387 = stablehlo.add %1385, %1386 : tensor<16x16xf32>
    %1388 = stablehlo.divide %1382, %1387 : tensor<16x16xf32>
    %1389 = stablehlo.subtract %arg16, %1388 : tensor<16x16xf32>
    %1390 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1391 = stablehlo.divide %874, %1390 : tensor<16x32xf32>
    %cst_338 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1392 = stablehlo.broadcast_in_dim %cst_338, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1393 = stablehlo.multiply %1392, %1391 : tensor<16x32xf32>
    %1394 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1395 = stablehlo.divide %1082, %1394 : tensor<16x32xf32>
    %1396 = stablehlo.sqrt %1395 : tensor<16x32xf32>
    %cst_339 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1397 = stablehlo.broadcast_in_dim %cst_339, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1398 = stablehlo.add %1396, %1397 : tensor<16x32xf32>
    %1399 = stablehlo.divide %1393, %1398 : tensor<16x32xf32>
    %1400 = stablehlo.subtract %arg17, %1399 : tensor<16x32xf32>
    %1401 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1402 = stablehlo.divide %879, %1401 : tensor<16x16xf32>
    %cst_340 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1403 = stablehlo.broadcast_in_dim %cst_340, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1404 = stablehlo.multiply %1403, %1402 : tensor<16x16xf32>
    %1405 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1406 = stablehlo.divide %1088, %1405 : tensor<16x16xf32>
    %1407 = stablehlo.sqrt %1406 : tensor<16x16xf32>
    %cst_341 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1408 = stablehlo.broadcast_in_dim %cst_341, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1409 = stablehlo.add %1407, %1408 : tensor<16x16xf32>
    %1410 = stablehlo.divide %1404, %1409 : tensor<16x16xf32>
    %1411 = stablehlo.subtract %arg18, %1410 : tensor<16x16xf32>
    %1412 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1413 = stablehlo.divide %884, %1412 : tensor<32x16xf32>
    %cst_342 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1414 = stablehlo.broadcast_in_dim %cst_342, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1415 = stablehlo.multiply %1414, %1413 : tensor<32x16xf32>
    %1416 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1417 = stablehlo.divide %1094, %1416 : tensor<32x16xf32>
    %1418 = stablehlo.sqrt %1417 : tensor<32x16xf32>
    %cst_343 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1419 = stablehlo.broadcast_in_dim %cst_343, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1420 = stablehlo.add %1418, %1419 : tensor<32x16xf32>
    %1421 = stablehlo.divide %1415, %1420 : tensor<32x16xf32>
    %1422 = stablehlo.subtract %arg19, %1421 : tensor<32x16xf32>
    %1423 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1424 = stablehlo.divide %889, %1423 : tensor<16x32xf32>
    %cst_344 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1425 = stablehlo.broadcast_in_dim %cst_344, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1426 = stablehlo.multiply %1425, %1424 : tensor<16x32xf32>
    %1427 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1428 = stablehlo.divide %1100, %1427 : tensor<16x32xf32>
    %1429 = stablehlo.sqrt %1428 : tensor<16x32xf32>
    %cst_345 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1430 = stablehlo.broadcast_in_dim %cst_345, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1431 = stablehlo.add %1429, %1430 : tensor<16x32xf32>
    %1432 = stablehlo.divide %1426, %1431 : tensor<16x32xf32>
    %1433 = stablehlo.subtract %arg20, %1432 : tensor<16x32xf32>
    %1434 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1435 = stablehlo.divide %894, %1434 : tensor<16x16xf32>
    %cst_346 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1436 = stablehlo.broadcast_in_dim %cst_346, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1437 = stablehlo.multiply %1436, %1435 : tensor<16x16xf32>
    %1438 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1439 = stablehlo.divide %1106, %1438 : tensor<16x16xf32>
    %1440 = stablehlo.sqrt %1439 : tensor<16x16xf32>
    %cst_347 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1441 = stablehlo.broadcast_in_dim %cst_347, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1442 = stablehlo.add %1440, %1441 : tensor<16x16xf32>
    %1443 = stablehlo.divide %1437, %1442 : tensor<16x16xf32>
    %1444 = stablehlo.subtract %arg21, %1443 : tensor<16x16xf32>
    %1445 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1446 = stablehlo.divide %899, %1445 : tensor<16xf32>
    %cst_348 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1447 = stablehlo.broadcast_in_dim %cst_348, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1448 = stablehlo.multiply %1447, %1446 : tensor<16xf32>
    %1449 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1450 = stablehlo.divide %1112, %1449 : tensor<16xf32>
    %1451 = stablehlo.sqrt %1450 : tensor<16xf32>
    %cst_349 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1452 = stablehlo.broadcast_in_dim %cst_349, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1453 = stablehlo.add %1451, %1452 : tensor<16xf32>
    %1454 = stablehlo.divide %1448, %1453 : tensor<16xf32>
    %1455 = stablehlo.subtract %arg22, %1454 : tensor<16xf32>
    %1456 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1457 = stablehlo.divide %904, %1456 : tensor<16xf32>
    %cst_350 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1458 = stablehlo.broadcast_in_dim %cst_350, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1459 = stablehlo.multiply %1458, %1457 : tensor<16xf32>
    %1460 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1461 = stablehlo.divide %1118, %1460 : tensor<16xf32>
    %1462 = stablehlo.sqrt %1461 : tensor<16xf32>
    %cst_351 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1463 = stablehlo.broadcast_in_dim %cst_351, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1464 = stablehlo.add %1462, %1463 : tensor<16xf32>
    %1465 = stablehlo.divide %1459, %1464 : tensor<16xf32>
    %1466 = stablehlo.subtract %arg23, %1465 : tensor<16xf32>
    %1467 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1468 = stablehlo.divide %909, %1467 : tensor<16x16xf32>
    %cst_352 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1469 = stablehlo.broadcast_in_dim %cst_352, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1470 = stablehlo.multiply %1469, %1468 : tensor<16x16xf32>
    %1471 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1472 = stablehlo.divide %1124, %1471 : tensor<16x16xf32>
    %1473 = stablehlo.sqrt %1472 : tensor<16x16xf32>
    %cst_353 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1474 = stablehlo.broadcast_in_dim %cst_353, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1475 = stablehlo.add %1473, %1474 : tensor<16x16xf32>
    %1476 = stablehlo.divide %1470, %1475 : tensor<16x16xf32>
    %1477 = stablehlo.subtract %arg24, %1476 : tensor<16x16xf32>
    %1478 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1479 = stablehlo.divide %914, %1478 : tensor<16x16xf32>
    %cst_354 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1480 = stablehlo.broadcast_in_dim %cst_354, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1481 = stablehlo.multiply %1480, %1479 : tensor<16x16xf32>
    %1482 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1483 = stablehlo.divide %1130, %1482 : tensor<16x16xf32>
    %1484 = stablehlo.sqrt %1483 : tensor<16x16xf32>
    %cst_355 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1485 = stablehlo.broadcast_in_dim %cst_355, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1486 = stablehlo.add %1484, %1485 : tensor<16x16xf32>
    %1487 = stablehlo.divide %1481, %1486 : tensor<16x16xf32>
    %1488 = stablehlo.subtract %arg25, %1487 : tensor<16x16xf32>
    %1489 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1490 = stablehlo.divide %919, %1489 : tensor<16x32xf32>
    %cst_356 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1491 = stablehlo.broadcast_in_dim %cst_356, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1492 = stablehlo.multiply %1491, %1490 : tensor<16x32xf32>
    %1493 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1494 = stablehlo.divide %1136, %1493 : tensor<16x32xf32>
    %1495 = stablehlo.sqrt %1494 : tensor<16x32xf32>
    %cst_357 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1496 = stablehlo.broadcast_in_dim %cst_357, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1497 = stablehlo.add %1495, %1496 : tensor<16x32xf32>
    %1498 = stablehlo.divide %1492, %1497 : tensor<16x32xf32>
    %1499 = stablehlo.subtract %arg26, %1498 : tensor<16x32xf32>
    %1500 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1501 = stablehlo.divide %924, %1500 : tensor<16x16xf32>
    %cst_358 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1502 = stablehlo.broadcast_in_dim %cst_358, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1503 = stablehlo.multiply %1502, %1501 : tensor<16x16xf32>
    %1504 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1505 = stablehlo.divide %1142, %1504 : tensor<16x16xf32>
    %1506 = stablehlo.sqrt %1505 : tensor<16x16xf32>
    %cst_359 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1507 = stablehlo.broadcast_in_dim %cst_359, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1508 = stablehlo.add %1506, %1507 : tensor<16x16xf32>
    %1509 = stablehlo.divide %1503, %1508 : tensor<16x16xf32>
    %1510 = stablehlo.subtract %arg27, %1509 : tensor<16x16xf32>
    %1511 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1512 = stablehlo.divide %929, %1511 : tensor<32x16xf32>
    %cst_360 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1513 = stablehlo.broadcast_in_dim %cst_360, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1514 = stablehlo.multiply %1513, %1512 : tensor<32x16xf32>
    %1515 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1516 = stablehlo.divide %1148, %1515 : tensor<32x16xf32>
    %1517 = stablehlo.sqrt %1516 : tensor<32x16xf32>
    %cst_361 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1518 = stablehlo.broadcast_in_dim %cst_361, dims = [] : (tensor<f32>) -> tensor<32x16xf32>
    %1519 = stablehlo.add %1517, %1518 : tensor<32x16xf32>
    %1520 = stablehlo.divide %1514, %1519 : tensor<32x16xf32>
    %1521 = stablehlo.subtract %arg28, %1520 : tensor<32x16xf32>
    %1522 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1523 = stablehlo.divide %934, %1522 : tensor<16x32xf32>
    %cst_362 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1524 = stablehlo.broadcast_in_dim %cst_362, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1525 = stablehlo.multiply %1524, %1523 : tensor<16x32xf32>
    %1526 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1527 = stablehlo.divide %1154, %1526 : tensor<16x32xf32>
    %1528 = stablehlo.sqrt %1527 : tensor<16x32xf32>
    %cst_363 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1529 = stablehlo.broadcast_in_dim %cst_363, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1530 = stablehlo.add %1528, %1529 : tensor<16x32xf32>
    %1531 = stablehlo.divide %1525, %1530 : tensor<16x32xf32>
    %1532 = stablehlo.subtract %arg29, %1531 : tensor<16x32xf32>
    %1533 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1534 = stablehlo.divide %939, %1533 : tensor<16x16xf32>
    %cst_364 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1535 = stablehlo.broadcast_in_dim %cst_364, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1536 = stablehlo.multiply %1535, %1534 : tensor<16x16xf32>
    %1537 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1538 = stablehlo.divide %1160, %1537 : tensor<16x16xf32>
    %1539 = stablehlo.sqrt %1538 : tensor<16x16xf32>
    %cst_365 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1540 = stablehlo.broadcast_in_dim %cst_365, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1541 = stablehlo.add %1539, %1540 : tensor<16x16xf32>
    %1542 = stablehlo.divide %1536, %1541 : tensor<16x16xf32>
    %1543 = stablehlo.subtract %arg30, %1542 : tensor<16x16xf32>
    %1544 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1545 = stablehlo.divide %944, %1544 : tensor<16xf32>
    %cst_366 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1546 = stablehlo.broadcast_in_dim %cst_366, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1547 = stablehlo.multiply %1546, %1545 : tensor<16xf32>
    %1548 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1549 = stablehlo.divide %1166, %1548 : tensor<16xf32>
    %1550 = stablehlo.sqrt %1549 : tensor<16xf32>
    %cst_367 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1551 = stablehlo.broadcast_in_dim %cst_367, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1552 = stablehlo.add %1550, %1551 : tensor<16xf32>
    %1553 = stablehlo.divide %1547, %1552 : tensor<16xf32>
    %1554 = stablehlo.subtract %arg31, %1553 : tensor<16xf32>
    %1555 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1556 = stablehlo.divide %949, %1555 : tensor<16xf32>
    %cst_368 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1557 = stablehlo.broadcast_in_dim %cst_368, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1558 = stablehlo.multiply %1557, %1556 : tensor<16xf32>
    %1559 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1560 = stablehlo.divide %1172, %1559 : tensor<16xf32>
    %1561 = stablehlo.sqrt %1560 : tensor<16xf32>
    %cst_369 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1562 = stablehlo.broadcast_in_dim %cst_369, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1563 = stablehlo.add %1561, %1562 : tensor<16xf32>
    %1564 = stablehlo.divide %1558, %1563 : tensor<16xf32>
    %1565 = stablehlo.subtract %arg32, %1564 : tensor<16xf32>
    %1566 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1567 = stablehlo.divide %954, %1566 : tensor<16x16xf32>
    %cst_370 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1568 = stablehlo.broadcast_in_dim %cst_370, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1569 = stablehlo.multiply %1568, %1567 : tensor<16x16xf32>
    %1570 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1571 = stablehlo.divide %1178, %1570 : tensor<16x16xf32>
    %1572 = stablehlo.sqrt %1571 : tensor<16x16xf32>
    %cst_371 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1573 = stablehlo.broadcast_in_dim %cst_371, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1574 = stablehlo.add %1572, %1573 : tensor<16x16xf32>
    %1575 = stablehlo.divide %1569, %1574 : tensor<16x16xf32>
    %1576 = stablehlo.subtract %arg33, %1575 : tensor<16x16xf32>
    %1577 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1578 = stablehlo.divide %959, %1577 : tensor<16x16xf32>
    %cst_372 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1579 = stablehlo.broadcast_in_dim %cst_372, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1580 = stablehlo.multiply %1579, %1578 : tensor<16x16xf32>
    %1581 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1582 = stablehlo.divide %1184, %1581 : tensor<16x16xf32>
    %1583 = stablehlo.sqrt %1582 : tensor<16x16xf32>
    %cst_373 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1584 = stablehlo.broadcast_in_dim %cst_373, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1585 = stablehlo.add %1583, %1584 : tensor<16x16xf32>
    %1586 = stablehlo.divide %1580, %1585 : tensor<16x16xf32>
    %1587 = stablehlo.subtract %arg34, %1586 : tensor<16x16xf32>
    %1588 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1589 = stablehlo.divide %964, %1588 : tensor<16x32xf32>
    %cst_374 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1590 = stablehlo.broadcast_in_dim %cst_374, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1591 = stablehlo.multiply %1590, %1589 : tensor<16x32xf32>
    %1592 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1593 = stablehlo.divide %1190, %1592 : tensor<16x32xf32>
    %1594 = stablehlo.sqrt %1593 : tensor<16x32xf32>
    %cst_375 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1595 = stablehlo.broadcast_in_dim %cst_375, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %1596 = stablehlo.add %1594, %1595 : tensor<16x32xf32>
    %1597 = stablehlo.divide %1591, %1596 : tensor<16x32xf32>
    %1598 = stablehlo.subtract %arg35, %1597 : tensor<16x32xf32>
    %1599 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1600 = stablehlo.divide %969, %1599 : tensor<16x16xf32>
    %cst_376 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1601 = stablehlo.broadcast_in_dim %cst_376, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1602 = stablehlo.multiply %1601, %1600 : tensor<16x16xf32>
    %1603 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1604 = stablehlo.divide %1196, %1603 : tensor<16x16xf32>
    %1605 = stablehlo.sqrt %1604 : tensor<16x16xf32>
    %cst_377 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1606 = stablehlo.broadcast_in_dim %cst_377, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %1607 = stablehlo.add %1605, %1606 : tensor<16x16xf32>
    %1608 = stablehlo.divide %1602, %1607 : tensor<16x16xf32>
    %1609 = stablehlo.subtract %arg36, %1608 : tensor<16x16xf32>
    %1610 = stablehlo.broadcast_in_dim %781, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1611 = stablehlo.divide %974, %1610 : tensor<16xf32>
    %cst_378 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %1612 = stablehlo.broadcast_in_dim %cst_378, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1613 = stablehlo.multiply %1612, %1611 : tensor<16xf32>
    %1614 = stablehlo.broadcast_in_dim %784, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1615 = stablehlo.divide %1202, %1614 : tensor<16xf32>
    %1616 = stablehlo.sqrt %1615 : tensor<16xf32>
    %cst_379 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %1617 = stablehlo.broadcast_in_dim %cst_379, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %1618 = stablehlo.add %1616, %1617 : tensor<16xf32>
    %1619 = stablehlo.divide %1613, %1618 : tensor<16xf32>
    %1620 = stablehlo.subtract %arg37, %1619 : tensor<16xf32>
    return %1213, %1224, %1235, %1246, %1257, %1268, %1279, %1290, %1301, %1312, %1323, %1334, %1345, %1356, %1367, %1378, %1389, %1400, %1411, %1422, %1433, %1444, %1455, %1466, %1477, %1488, %1499, %1510, %1521, %1532, %1543, %1554, %1565, %1576, %1587, %1598, %1609, %1620, %789, %794, %799, %804, %809, %814, %819, %824, %829, %834, %839, %844, %849, %854, %859, %864, %869, %874, %879, %884, %889, %894, %899, %904, %909, %914, %919, %924, %929, %934, %939, %944, %949, %954, %959, %964, %969, %974, %980, %986, %992, %998, %1004, %1010, %1016, %1022, %1028, %1034, %1040, %1046, %1052, %1058, %1064, %1070, %1076, %1082, %1088, %1094, %1100, %1106, %1112, %1118, %1124, %1130, %1136, %1142, %1148, %1154, %1160, %1166, %1172, %1178, %1184, %1190, %1196, %1202, %778, %361 : tensor<64x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<64x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<64x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<i32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<8x8xi1>) -> tensor<8x8xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x8xi32>
    %2 = stablehlo.add %0, %1 : tensor<8x8xi32>
    %3 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<8x8xi1>, tensor<8x8xi1>
    return %6 : tensor<8x8xi1>
  }
  func.func private @_where(%arg0: tensor<8x8xi1>, %arg1: tensor<2x2x8x8xf32>, %arg2: tensor<f32>) -> (tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<2x2x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    return %3, %1, %4 : tensor<2x2x8x8xf32>, tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>
  }
  func.func private @silu(%arg0: tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) {
    %0 = stablehlo.negate %arg0 : tensor<16x32xf32>
    %1 = stablehlo.exponential %0 : tensor<16x32xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %3 = stablehlo.add %2, %1 : tensor<16x32xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %5 = stablehlo.divide %4, %3 : tensor<16x32xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x32xf32>
    %7 = stablehlo.subtract %6, %5 : tensor<16x32xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<16x32xf32>
    %9 = stablehlo.multiply %arg0, %5 : tensor<16x32xf32>
    return %9, %8, %5 : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>
  }
  func.func private @log_softmax(%arg0: tensor<16x64xf32>) -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<16x64xf32>
    %6 = stablehlo.exponential %5 : tensor<16x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %9 = stablehlo.log %8 : tensor<16x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x64xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<16x64xf32>
    return %11, %6, %8 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<16x64xf32>, %arg1: tensor<16x1xi32>) -> (tensor<16x1xf32>, tensor<16x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<16x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<16x1xi32>, tensor<16x1xi32>) -> tensor<16x1xi1>
    %c_0 = stablehlo.constant dense<64> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<16x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<16x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<16x1xi1>, tensor<16x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<16x1xi32>) -> tensor<16x1x1xi32>
    %c_1 = stablehlo.constant dense<63> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<16x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<16x1x1xi32>, tensor<16x1x1xi32>) -> tensor<16x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<16x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<16x1x1xi32>, tensor<16x1x1xi32>) -> tensor<16x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<16x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<16x1x1xi1>, tensor<i1>) -> tensor<16x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<16x64xf32>, tensor<16x1x1xi32>) -> tensor<16x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<16x1xi1>, tensor<16x1xf32>
    return %15, %5 : tensor<16x1xf32>, tensor<16x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<16x1x1xi32>, %arg1: tensor<16x1xf32>) -> tensor<16x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<16x64xf32>, tensor<16x1x1xi32>, tensor<16x1xf32>) -> tensor<16x64xf32>
    return %1 : tensor<16x64xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<16x64xf32>, %arg1: tensor<16x1xf32>, %arg2: tensor<16x64xf32>) -> tensor<16x64xf32> {
    %0 = stablehlo.negate %arg2 : tensor<16x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<16xf32>
    %2 = stablehlo.reshape %1 : (tensor<16xf32>) -> tensor<16x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<16x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<16x1xf32>, tensor<f32>) -> tensor<16xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16xf32>) -> tensor<16x64xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<16x64xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<16x64xf32>
    return %7 : tensor<16x64xf32>
  }
  func.func private @silu_2(%arg0: tensor<16x32xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<16x32xf32>, %arg3: tensor<16x32xf32>) -> tensor<16x32xf32> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<16x32xf32>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<16x32xf32>
    %2 = stablehlo.multiply %0, %arg0 : tensor<16x32xf32>
    %3 = stablehlo.add %1, %2 : tensor<16x32xf32>
    return %3 : tensor<16x32xf32>
  }
  func.func private @_where_3(%arg0: tensor<2x2x8x8xi1>, %arg1: tensor<2x2x8x8xf32>, %arg2: tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x8x8xf32>
    %1 = stablehlo.select %arg0, %arg2, %0 : tensor<2x2x8x8xi1>, tensor<2x2x8x8xf32>
    return %1 : tensor<2x2x8x8xf32>
  }
}
