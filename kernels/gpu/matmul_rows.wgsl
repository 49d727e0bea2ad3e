// A product of matrices whose columns stand along channels: four rows and four columns of the output for each thread.
//
// Leading axes are numbered together: matrix m of a tensor has batch m / height and row y = m % height. Rows of a matrix
// stand along the width, or along the batch of a tensor of two axes. `left(m, row, k)` has for each of four rows of the
// first operand its elements k to k + 3, `right(m, slice, k)` for each of the rows k to k + 3 of the second its four
// columns in a slice; both give 0 beyond the inner size.

struct Own {
    rows: i32, columns: i32, inner: i32, matrices: i32,
    size_1: i32, size_2: i32, size_3: i32,  // of the last leading axes of the output
    a_0: i32, a_1: i32, a_2: i32, a_3: i32,  // matrices of the first operand from one index of them to the next
    b_0: i32, b_1: i32, b_2: i32, b_3: i32,
    a_batch: i32, b_batch: i32, out_batch: i32,  // 1: rows stand along the batch
    alpha: f32,
}

fn spot(t: Tensor, matrix: i32, row: i32, along: i32) -> vec3<i32> {  // batch, y, x
    return vec3<i32>(matrix / t.height + row * along, matrix % t.height, row * (1 - along));
}
fn a_at(matrix: i32, row: i32, slice: i32, rows: i32) -> factor {
    let at = spot(p.input_0, matrix, min(row, rows - 1), p.own.a_batch);
    return factor(select(vec4<f32>(), clean_0(at.x, at.y, at.z, slice), row < rows));
}
fn b_at(matrix: i32, row: i32, slice: i32, rows: i32) -> factor {
    let at = spot(p.input_1, matrix, min(row, rows - 1), p.own.b_batch);
    return factor(select(vec4<f32>(), clean_1(at.x, at.y, at.z, slice), row < rows));
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let index = serial(group, groups, local, 64u);
    let tiles = (p.own.rows + 3) / 4;
    let row = index % tiles * 4;
    let slice = index / tiles % p.output.slices;
    let matrix = index / tiles / p.output.slices;
    if (matrix >= p.own.matrices) {
        return;
    }
    let i3 = matrix % p.own.size_3;
    let i2 = matrix / p.own.size_3 % p.own.size_2;
    let i1 = matrix / p.own.size_3 / p.own.size_2 % p.own.size_1;
    let i0 = matrix / p.own.size_3 / p.own.size_2 / p.own.size_1;
    let a = i0 * p.own.a_0 + i1 * p.own.a_1 + i2 * p.own.a_2 + i3 * p.own.a_3;
    let b = i0 * p.own.b_0 + i1 * p.own.b_1 + i2 * p.own.b_2 + i3 * p.own.b_3;
    var sums: array<vec4<f32>, 4>;
    for (var k = 0; k < p.own.inner; k += 4) {
        let x = left(a, row, k);
        let y = right(b, slice, k);
        for (var r = 0; r < ROWS; r++) {  // unroll
            sums[r] += vec4<f32>(y * x[r]);
        }
    }
    for (var r = 0; r < ROWS; r++) {  // unroll
        if (row + r < p.own.rows) {
            let at = vec4<i32>(spot(p.output, matrix, row + r, p.own.out_batch), slice);
            store(at.x, at.y, at.z, slice, finish(sums[r] * p.own.alpha + bias_at(at)));
        }
    }
}
