// A product of matrices of tensors in any order of axes: four elements of the output for each thread, one by one.
//
// The output's elements are numbered (leading axes, row, column). A matrix of an operand starts at the sum of the leading
// indices times its steps, which are 0 where it is broadcast. `second(i)` is an element of the second operand.

struct Own {
    columns: i32, rows: i32, inner: i32,
    size_1: i32, size_2: i32, size_3: i32,  // of the last three of four leading axes of the output
    a_0: i32, a_1: i32, a_2: i32, a_3: i32,  // steps of the first operand along them, in elements
    b_0: i32, b_1: i32, b_2: i32, b_3: i32,
    a_row: i32, a_inner: i32,  // steps within a matrix
    b_column: i32, b_inner: i32,
    alpha: f32,
}

fn each_texel(at: vec4<i32>) {
    var result = vec4<f32>();
    for (var k = 0; k < min(4, p.output.channels - at.w * 4); k++) {
        let index = index_of(p.output, at.x, at.y, at.z, at.w * 4 + k);
        let column = index % p.own.columns;
        let row = index / p.own.columns % p.own.rows;
        let matrix = index / p.own.columns / p.own.rows;
        let i3 = matrix % p.own.size_3;
        let i2 = matrix / p.own.size_3 % p.own.size_2;
        let i1 = matrix / p.own.size_3 / p.own.size_2 % p.own.size_1;
        let i0 = matrix / p.own.size_3 / p.own.size_2 / p.own.size_1;
        let a = i0 * p.own.a_0 + i1 * p.own.a_1 + i2 * p.own.a_2 + i3 * p.own.a_3 + row * p.own.a_row;
        let b = i0 * p.own.b_0 + i1 * p.own.b_1 + i2 * p.own.b_2 + i3 * p.own.b_3 + column * p.own.b_column;
        var sum = 0.0;
        for (var e = 0; e < p.own.inner; e++) {
            sum += at_0(a + e * p.own.a_inner) * second(b + e * p.own.b_inner);
        }
        result[k] = sum;
    }
    store(at.x, at.y, at.z, at.w, finish(result * p.own.alpha + bias_at(at)));
}
