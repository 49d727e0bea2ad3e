// Rows of the input times the transpose of the weights. 64 threads compute ROWS rows x 8 slices of units: each of 8
// threads sums every eighth texel of the rows for a slice, then their sums are added in workgroup memory.
//
//   weights_0: [texels of a row][own.units slices][4 inputs], four units each
//   weights_1: the bias, [own.units]
//
// `operand(row, texel)` is four elements of a row, 0 where there are none.

struct Own {
    rows: i32,
    texels: i32, elements: i32,  // of a row, as `operand` counts them
    channels: i32,  // of a row of the output, which stands along channels
    first: i32, units: i32,  // of the dispatch: the first slice of units and their number
}

var<workgroup> sums: array<vec4<f32>, 64 * ROWS>;

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let tiles = (p.own.units + 7) / 8;
    let number = serial(group, groups, 0u, 1u);
    let part = number % tiles * 8 + i32(local) % 8;
    let unit = min(part, p.own.units - 1);
    let first_row = number / tiles * ROWS;
    let lane = i32(local) / 8;
    var mine: array<vec4<f32>, ROWS>;
    for (var t = lane; t < p.own.texels; t += 8) {
        let at = (t * p.own.units + unit) * 4;
        let w0 = factor(weight(at, unit));
        let w1 = factor(weight(at + 1, unit));
        let w2 = factor(weight(at + 2, unit));
        let w3 = factor(weight(at + 3, unit));
        for (var r = 0; r < ROWS; r++) {  // unroll
            let v = factor(operand(min(first_row + r, p.own.rows - 1), t));
            mine[r] += vec4<f32>(w0 * v.x + w1 * v.y + w2 * v.z + w3 * v.w);
        }
    }
    for (var r = 0; r < ROWS; r++) {  // unroll
        sums[r * 64 + i32(local)] = mine[r];
    }
    workgroupBarrier();
    if (part >= p.own.units) {
        return;
    }
    for (var r = lane; r < ROWS; r += 8) {
        if (first_row + r < p.own.rows) {
            var sum = weights_1(part);
            for (var k = 0; k < 8; k++) {
                sum += sums[r * 64 + k * 8 + i32(local) % 8];
            }
            let at = position_out((first_row + r) * p.own.channels);
            store(at.x, at.y, at.z, p.own.first + part, finish(sum));
        }
    }
}
