// The index of the largest or smallest element along an axis, in the order of the tensors: one invocation for each texel
// of the output. LEAST is 1 for the smallest, LAST is 1 where the last of equal elements counts.

struct Own {
    size: i32, inner: i32,  // the axis, and elements from one to the next along it
}

fn index_of_most(number: i32) -> f32 {
    let first = (number / p.own.inner) * p.own.inner * p.own.size + number % p.own.inner;
    var most = at_0(first);
    var found = 0;
    for (var k = 1; k < p.own.size; k++) {
        let value = at_0(first + k * p.own.inner);
        let is_more = select(value > most, value < most, LEAST == 1);
        if (is_more || (LAST == 1 && value == most)) {
            most = value;
            found = k;
        }
    }
    return f32(found);
}

fn each_texel(at: vec4<i32>) {
    var value = vec4<f32>();
    for (var k = 0; k < 4; k++) {
        let c = at.w * 4 + k;
        if (c < p.output.channels) {
            value[k] = index_of_most(index_of(p.output, at.x, at.y, at.z, c));
        }
    }
    store(at.x, at.y, at.z, at.w, value);
}
