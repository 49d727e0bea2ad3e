// A function of two elements, `operate`, of any shapes that NumPy broadcasts: one invocation for each texel of the
// output, which reads its elements one by one. Dimensions are the output's, merged where both operands allow it.

struct Own {
    dim_1: i32, dim_2: i32, dim_3: i32, dim_4: i32, dim_5: i32,
    a_0: i32, a_1: i32, a_2: i32, a_3: i32, a_4: i32, a_5: i32,  // elements from one to the next; 0: there is one
    b_0: i32, b_1: i32, b_2: i32, b_3: i32, b_4: i32, b_5: i32,
}

// The elements' numbers in both operands for the number of an element of the output.
fn sources(number: i32) -> vec2<i32> {
    var rest = number;
    let i_5 = rest % p.own.dim_5;
    rest /= p.own.dim_5;
    let i_4 = rest % p.own.dim_4;
    rest /= p.own.dim_4;
    let i_3 = rest % p.own.dim_3;
    rest /= p.own.dim_3;
    let i_2 = rest % p.own.dim_2;
    rest /= p.own.dim_2;
    let i_1 = rest % p.own.dim_1;
    let i_0 = rest / p.own.dim_1;
    let a = i_0 * p.own.a_0 + i_1 * p.own.a_1 + i_2 * p.own.a_2 + i_3 * p.own.a_3 + i_4 * p.own.a_4 + i_5 * p.own.a_5;
    let b = i_0 * p.own.b_0 + i_1 * p.own.b_1 + i_2 * p.own.b_2 + i_3 * p.own.b_3 + i_4 * p.own.b_4 + i_5 * p.own.b_5;
    return vec2<i32>(a, b);
}

fn each_texel(at: vec4<i32>) {
    var a = vec4<f32>();
    var b = vec4<f32>();
    for (var k = 0; k < 4; k++) {
        let c = at.w * 4 + k;
        if (c < p.output.channels) {
            let number = sources(index_of(p.output, at.x, at.y, at.z, c));
            a[k] = at_0(number.x);
            b[k] = at_1(number.y);
        }
    }
    store(at.x, at.y, at.z, at.w, finish(operate(a, b)));
}
