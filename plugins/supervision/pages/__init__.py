"""Lyrebird's pages in Airflow: applications with their logs, and audits.

`frame` is what all pages share, `applications` and `audits` make pages as functions of files, and `serving` asks who
may see them. Nothing here but `serving` imports the API server, and nothing but the plugin's first request imports it.
"""
