package org.json;

public class JSONObject {
    public JSONObject(String text) throws JSONException {
    }

    public native JSONObject getJSONObject(String name) throws JSONException;

    public native JSONArray getJSONArray(String name) throws JSONException;

    public native String getString(String name) throws JSONException;

    public native int getInt(String name) throws JSONException;

    public native long getLong(String name) throws JSONException;
}
