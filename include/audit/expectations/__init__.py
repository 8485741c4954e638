"""Great Expectations' suites over what a topic holds at an audit's position: is each document right in itself?"""
