// Every dtype in, the same out.
module @dtypes {
  func.func public @main(
    %a0: tensor<4xi1>,
    %a1: tensor<4xui8>,
    %a2: tensor<4xui16>,
    %a3: tensor<4xui32>,
    %a4: tensor<4xui64>,
    %a5: tensor<4xi8>,
    %a6: tensor<4xi16>,
    %a7: tensor<4xi32>,
    %a8: tensor<4xi64>,
    %a9: tensor<4xf16>,
    %a10: tensor<4xbf16>,
    %a11: tensor<4xf32>,
    %a12: tensor<4xf64>,
    %a13: tensor<4xf8E4M3FN>,
    %a14: tensor<4xf8E5M2>,
    %a15: tensor<4xcomplex<f32>>,
    %a16: tensor<4xcomplex<f64>>
  ) -> (
    tensor<4xi1>, tensor<4xui8>, tensor<4xui16>, tensor<4xui32>, tensor<4xui64>, tensor<4xi8>, tensor<4xi16>, tensor<4xi32>, tensor<4xi64>, tensor<4xf16>, tensor<4xbf16>, tensor<4xf32>, tensor<4xf64>, tensor<4xf8E4M3FN>, tensor<4xf8E5M2>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f64>>
  ) {
    return %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16 :
      tensor<4xi1>, tensor<4xui8>, tensor<4xui16>, tensor<4xui32>, tensor<4xui64>, tensor<4xi8>, tensor<4xi16>, tensor<4xi32>, tensor<4xi64>, tensor<4xf16>, tensor<4xbf16>, tensor<4xf32>, tensor<4xf64>, tensor<4xf8E4M3FN>, tensor<4xf8E5M2>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f64>>
  }
}
