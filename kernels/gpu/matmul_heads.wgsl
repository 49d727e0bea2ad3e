// A product of matrices in the height and the width of tensors, four channels at a time: each thread computes four rows
// and four columns of four matrices. `left(b, row, k, slice)` and `right(b, k, column, slice)` are elements of the operands.

struct Own {
    rows: i32, columns: i32, inner: i32,
    a_splat: i32, b_splat: i32,  // 1: the operand has one channel, for all
    alpha: f32,
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let index = serial(group, groups, local, 64u);
    let across = (p.own.columns + 3) / 4;
    let down = (p.own.rows + 3) / 4;
    let column = index % across * 4;
    let row = index / across % down * 4;
    let slice = index / across / down % p.output.slices;
    let b = index / across / down / p.output.slices;
    if (b >= p.output.batch) {
        return;
    }
    var sums: array<vec4<f32>, 16>;
    for (var k = 0; k < p.own.inner; k++) {
        var x: array<vec4<f32>, 4>;
        for (var r = 0; r < SIDE; r++) {  // unroll
            x[r] = left(b, min(row + r, p.own.rows - 1), k, slice);
        }
        for (var c = 0; c < SIDE; c++) {  // unroll
            let y = right(b, k, min(column + c, p.own.columns - 1), slice);
            for (var r = 0; r < SIDE; r++) {  // unroll
                sums[r * 4 + c] += x[r] * y;
            }
        }
    }
    for (var r = 0; r < SIDE; r++) {  // unroll
        for (var c = 0; c < SIDE; c++) {  // unroll
            if (row + r < p.own.rows && column + c < p.own.columns) {
                let at = vec4<i32>(b, row + r, column + c, slice);
                store(b, row + r, column + c, slice, finish(sums[r * 4 + c] * p.own.alpha + bias_at(at)));
            }
        }
    }
}
