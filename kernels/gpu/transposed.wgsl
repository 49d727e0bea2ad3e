// The transpose of a convolution. A thread computes BLOCK slices of output channels at two positions of a row that are a
// stride apart: the same taps fall on both, from neighbouring columns of the input.
//
//   weights_0: [blocks][kernel height][kernel width][own.slices][BLOCK][4 input channels], four output channels each
//   weights_1: the bias, [blocks][BLOCK]
//
// Which input slices a block reads is as for a convolution (convolution.wgsl). `fetch` gives 0 beyond the input's row,
// and in channels that the input has not.

struct Own {
    kernel_height: i32, kernel_width: i32,
    stride_height: i32, stride_width: i32,
    dilation_height: i32, dilation_width: i32,
    top: i32, left: i32,
    slices: i32,
    group_inputs: i32, group_outputs: i32,
    first: i32, blocks: i32,
    columns: i32,  // threads along a row
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let index = serial(group, groups, local, 64u);
    let b = index % p.output.batch;
    let column = index / p.output.batch % p.own.columns;
    let row = index / p.output.batch / p.own.columns;
    let y = row % p.output.height;
    let part = row / p.output.height;
    let x = column / p.own.stride_width * (2 * p.own.stride_width) + column % p.own.stride_width;
    if (part >= p.own.blocks || x >= p.output.width) {
        return;
    }
    let block = p.own.first + part;
    let from_slice = block * BLOCK * 4 / p.own.group_outputs * p.own.group_inputs / 4;
    let slices = min(p.own.slices, p.input_0.slices - from_slice);
    var sums: array<vec4<f32>, BLOCK * 2>;
    for (var k = 0; k < BLOCK; k++) {  // unroll
        sums[k * 2] = weights_1(part * BLOCK + k);
        sums[k * 2 + 1] = sums[k * 2];
    }
    for (var ky = 0; ky < p.own.kernel_height; ky++) {
        let ty = y + p.own.top - ky * p.own.dilation_height;
        let iy = ty / p.own.stride_height;
        if (ty < 0 || iy * p.own.stride_height != ty || iy >= p.input_0.height) {
            continue;
        }
        for (var kx = 0; kx < p.own.kernel_width; kx++) {
            let tx = x + p.own.left - kx * p.own.dilation_width;
            let after = tx + p.own.stride_width;  // of the second position: the first one's may be left of the input
            let ix = after / p.own.stride_width - 1;
            if (after < 0 || (ix + 1) * p.own.stride_width != after || ix >= p.input_0.width) {
                continue;
            }
            let row = ((part * p.own.kernel_height + ky) * p.own.kernel_width + kx) * p.own.slices * (BLOCK * 4);
            for (var s = 0; s < slices; s++) {
                let v0 = factor(fetch(b, iy, ix, from_slice + s));
                let v1 = factor(fetch(b, iy, ix + 1, from_slice + s));
                for (var k = 0; k < BLOCK; k++) {  // unroll
                    let tap = row + (s * BLOCK + k) * 4;
                    let w0 = factor(weight(tap, part * BLOCK + k));
                    let w1 = factor(weight(tap + 1, part * BLOCK + k));
                    let w2 = factor(weight(tap + 2, part * BLOCK + k));
                    let w3 = factor(weight(tap + 3, part * BLOCK + k));
                    sums[k * 2] += vec4<f32>(w0 * v0.x + w1 * v0.y + w2 * v0.z + w3 * v0.w);
                    sums[k * 2 + 1] += vec4<f32>(w0 * v1.x + w1 * v1.y + w2 * v1.z + w3 * v1.w);
                }
            }
        }
    }
    for (var k = 0; k < BLOCK; k++) {  // unroll
        let slice = block * BLOCK + k;
        if (slice < p.output.slices) {
            store(b, y, x, slice, finish(sums[k * 2]));
            if (x + p.own.stride_width < p.output.width) {
                store(b, y, x + p.own.stride_width, slice, finish(sums[k * 2 + 1]));
            }
        }
    }
}
