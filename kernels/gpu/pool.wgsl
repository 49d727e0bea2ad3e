// The largest number or the mean under a window: one texel of the output per invocation.

struct Own {
    kernel_height: i32, kernel_width: i32,
    stride_height: i32, stride_width: i32,
    dilation_height: i32, dilation_width: i32,
    top: i32, left: i32,
    padded_height: i32,  // of the input with its padding
    padded_width: i32,
    counts_padding: i32,
    is_max: i32,
}

fn each_texel(at: vec4<i32>) {
    var sum = vec4<f32>();
    var largest = vec4<f32>();
    var count = 0.0;
    var is_first = true;
    for (var ky = 0; ky < p.own.kernel_height; ky++) {
        let above = at.y * p.own.stride_height + ky * p.own.dilation_height;  // counted from the padding's edge
        let iy = above - p.own.top;
        for (var kx = 0; kx < p.own.kernel_width; kx++) {
            let before = at.z * p.own.stride_width + kx * p.own.dilation_width;
            let ix = before - p.own.left;
            if (iy >= 0 && iy < p.input_0.height && ix >= 0 && ix < p.input_0.width) {
                let value = load_0(at.x, iy, ix, at.w);
                sum += value;
                let larger = select(max(largest, value), value, no_number(value) | vec4<bool>(is_first));
                largest = select(larger, largest, no_number(largest));
                is_first = false;
                count += 1.0;
            } else if (p.own.counts_padding != 0 && above < p.own.padded_height && before < p.own.padded_width) {
                count += 1.0;
            }
        }
    }
    let result = select(sum / max(count, 1.0), largest, p.own.is_max != 0);
    store(at.x, at.y, at.z, at.w, finish(result));
}
