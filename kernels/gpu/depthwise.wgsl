// A convolution of each channel with a window of its own. A thread computes REPEAT positions of a row, APART columns
// apart, so that they share KEPT texels of the input, which are STEP columns apart: position r needs those from r * HOP to
// r * HOP + WIDTH - 1.
//
//   weights_0: [slices][kernel height][WIDTH], four channels each
//   weights_1: the bias, [slices]

struct Own {
    kernel_height: i32,
    stride_height: i32, stride_width: i32,
    dilation_height: i32,
    top: i32, left: i32,
    columns: i32,  // threads along a row
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let index = serial(group, groups, local, 64u);
    let b = index % p.output.batch;
    let column = index / p.output.batch % p.own.columns;
    let row = index / p.output.batch / p.own.columns;
    let y = row % p.output.height;
    let slice = row / p.output.height;
    if (slice >= p.output.slices) {
        return;
    }
    let x = column / APART * (APART * REPEAT) + column % APART;
    let left = x * p.own.stride_width - p.own.left;
    var sums: array<vec4<f32>, REPEAT>;
    for (var r = 0; r < REPEAT; r++) {  // unroll
        sums[r] = weights_1(slice);
    }
    for (var ky = 0; ky < p.own.kernel_height; ky++) {
        let iy = y * p.own.stride_height - p.own.top + ky * p.own.dilation_height;
        if (iy < 0 || iy >= p.input_0.height) {
            continue;
        }
        var kept: array<vec4<f32>, KEPT>;
        for (var k = 0; k < KEPT; k++) {  // unroll
            let ix = left + k * STEP;
            if (ix >= 0 && ix < p.input_0.width) {
                kept[k] = load_0(b, iy, ix, slice);
            }
        }
        for (var kx = 0; kx < WIDTH; kx++) {  // unroll
            let w = weight((slice * p.own.kernel_height + ky) * WIDTH + kx, slice);
            for (var r = 0; r < REPEAT; r++) {  // unroll
                sums[r] += w * kept[r * HOP + kx];
            }
        }
    }
    for (var r = 0; r < REPEAT; r++) {  // unroll
        let to = x + r * APART;
        if (to < p.output.width) {
            store(b, y, to, slice, finish(sums[r] + residual(b, y, to, slice)));
        }
    }
}
