// A product of matrices in the height and the width of tensors, four channels at a time: each thread computes four rows
// and four columns of four matrices.

struct Own {
    rows: i32, columns: i32, inner: i32,
    a_splat: i32, b_splat: i32,  // 1: the operand has one channel, for all
    alpha: f32,
}

fn a_at(b: i32, row: i32, k: i32, slice: i32) -> vec4<f32> {
    let value = left(min(b, p.input_0.batch - 1), min(row, p.own.rows - 1), k, slice * (1 - p.own.a_splat));
    return select(value, value.xxxx, p.own.a_splat != 0);
}
fn b_at(b: i32, k: i32, column: i32, slice: i32) -> vec4<f32> {
    let value = right(min(b, p.input_1.batch - 1), k, min(column, p.own.columns - 1), slice * (1 - p.own.b_splat));
    return select(value, value.xxxx, p.own.b_splat != 0);
}

@compute @workgroup_size(64) fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
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
            x[r] = a_at(b, row + r, k, slice);
        }
        for (var c = 0; c < SIDE; c++) {  // unroll
            let y = b_at(b, k, column + c, slice);
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
