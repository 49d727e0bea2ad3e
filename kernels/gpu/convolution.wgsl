// A convolution, grouped or not. A thread computes BLOCK slices of output channels at REPEAT positions.
//
//   workgroup: 64 threads = own.lanes positions at a time (REPEAT times) x 64 / own.lanes blocks of slices
//   weights_0: [blocks][kernel height][kernel width][own.slices][BLOCK][4 input channels], four output channels each
//   weights_1: the bias, [blocks][BLOCK]
//
// A block of output slices reads own.slices slices of the input, from that of the first group that it belongs to on.
// Weights outside of a channel's group are 0. `window` gives 0 beyond the input, and in channels that it has not, which
// may hold NaN; `residual` is what is added.

struct Own {
    kernel_height: i32, kernel_width: i32,
    stride_height: i32, stride_width: i32,
    dilation_height: i32, dilation_width: i32,
    top: i32, left: i32,
    slices: i32,
    group_inputs: i32, group_outputs: i32,
    first: i32, blocks: i32,  // of the dispatch: the first block of slices and their number
    lanes: i32,
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let columns = p.output.width * p.output.batch;
    let positions = columns * p.output.height;
    let tiles = (positions + p.own.lanes * REPEAT - 1) / (p.own.lanes * REPEAT);
    let number = serial(group, groups, 0u, 1u);
    let position = number % tiles * p.own.lanes * REPEAT + i32(local) % p.own.lanes;
    let part = number / tiles * (64 / p.own.lanes) + i32(local) / p.own.lanes;
    if (part >= p.own.blocks || position >= positions) {
        return;
    }
    let block = p.own.first + part;
    let from_slice = block * BLOCK * 4 / p.own.group_outputs * p.own.group_inputs / 4;
    let slices = min(p.own.slices, p.input_0.slices - from_slice);
    var sums: array<vec4<f32>, BLOCK * REPEAT>;
    var corner: array<vec3<i32>, REPEAT>;  // of each position's window: batch, y, x
    for (var r = 0; r < REPEAT; r++) {  // unroll
        let at = min(position + r * p.own.lanes, positions - 1);
        corner[r] = vec3<i32>(
            at % p.output.batch,
            at / columns * p.own.stride_height - p.own.top,
            at % columns / p.output.batch * p.own.stride_width - p.own.left,
        );
        for (var k = 0; k < BLOCK; k++) {  // unroll
            sums[k * REPEAT + r] = weights_1(part * BLOCK + k);
        }
    }
    var row = part * p.own.kernel_height * p.own.kernel_width * p.own.slices * (BLOCK * 4);
    for (var ky = 0; ky < p.own.kernel_height; ky++) {
        for (var kx = 0; kx < p.own.kernel_width; kx++) {
            for (var s = 0; s < slices; s++) {
                var values: array<factor, REPEAT>;
                for (var r = 0; r < REPEAT; r++) {  // unroll
                    values[r] = factor(window(corner[r], ky, kx, from_slice + s));
                }
                let tap = row + s * (BLOCK * 4);
                for (var k = 0; k < BLOCK; k++) {  // unroll
                    let w0 = factor(weight(tap + k * 4, part * BLOCK + k));
                    let w1 = factor(weight(tap + k * 4 + 1, part * BLOCK + k));
                    let w2 = factor(weight(tap + k * 4 + 2, part * BLOCK + k));
                    let w3 = factor(weight(tap + k * 4 + 3, part * BLOCK + k));
                    for (var r = 0; r < REPEAT; r++) {  // unroll
                        let v = values[r];
                        sums[k * REPEAT + r] += vec4<f32>(w0 * v.x + w1 * v.y + w2 * v.z + w3 * v.w);
                    }
                }
            }
            row += p.own.slices * (BLOCK * 4);
        }
    }
    for (var r = 0; r < REPEAT; r++) {  // unroll
        let at = position + r * p.own.lanes;
        if (at < positions) {
            let b = at % p.output.batch;
            let y = at / columns;
            let x = at % columns / p.output.batch;
            for (var k = 0; k < BLOCK; k++) {  // unroll
                let slice = block * BLOCK + k;
                if (slice < p.output.slices) {
                    store(b, y, x, slice, finish(sums[k * REPEAT + r] + residual(b, y, x, slice)));
                }
            }
        }
    }
}
